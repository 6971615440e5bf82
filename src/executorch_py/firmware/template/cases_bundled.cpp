// The cases of a bundled program, which stands in flash as the file it came as.
#include "board/board.h"
#include "cases.h"
#include "devtools/bundled_program.h"
#include "model.h"
#include "report.h"

namespace firmware {

using namespace et;  // NOLINT(google-build-using-namespace): a program, not a header
using devtools::BundledProgram;
using devtools::OutputDifference;
using runtime::Method;

namespace {

/// The bundle; program_bytes() has verified it.
BundledProgram bundle() { return BundledProgram::of_verified(kModel); }

}  // namespace

Result<Span<const uint8_t>> program_bytes() {
  const Result<BundledProgram> loaded = BundledProgram::load({kModel, kModelBytes});
  return loaded.ok() ? Result<Span<const uint8_t>>(loaded->program()) : fail("bundle", loaded.error());
}

size_t num_cases() { return bundle().num_cases(kMethod); }

Error set_inputs(Method& method, size_t test_case) {
  const Error error = bundle().load_input(method, test_case);
  return error == Error::Ok ? error : fail("input", error);
}

bool check_outputs(const Method& method, size_t test_case) {
  const Result<OutputDifference> found = bundle().compare_outputs(method, test_case, {kRtol, kAtol});
  write_number("case ", test_case);
  if (!found.ok()) {
    board::write(": ");
    static_cast<void>(fail("outputs", found.error()));
    return false;
  }
  if (found->num_different == 0) {
    board::write(": as expected\n");
    return true;
  }
  write_number(": ", found->num_different);
  write_number(" elements differ, first element ", found->element);
  write_number(" of output ", found->output);
  board::write("\n");
  return false;
}

}  // namespace firmware
