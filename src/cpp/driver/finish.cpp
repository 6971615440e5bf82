#include "driver/finish.h"

#include "ir/verifier.h"

namespace et::driver {

Error finish(const std::shared_ptr<ir::Program>& program, const FinishOptions& options, Finished& out,
             ir::Diagnostics& diagnostics) {
  ET_RETURN_IF_ERROR(planning::plan_memory(*program, options.memory, &out.memory));
  ET_RETURN_IF_ERROR(ir::verify(*program, &diagnostics));
  return emit::emit(program, options.emit, out.file, diagnostics);
}

}  // namespace et::driver
