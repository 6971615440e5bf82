#include "cost.h"

#include <new>

#include "board/board.h"
#include "report.h"
#include "runtime/platform.h"

namespace firmware {

using namespace et::runtime;  // NOLINT(google-build-using-namespace): a program, not a header

namespace {

class CostTracer final : public EventTracer {
 public:
  void record(const TraceEvent& event) override {
    if (is_instruction(event.kind)) {
      const uint64_t spent = event.end_ns - event.start_ns;
      write_number("cost: ", static_cast<uint64_t>(event.position.instruction));
      write_number(" ", spent > of_clock_ ? spent - of_clock_ : 0);
      board::write("\n");
    }
  }
  void calibrate() {
    const uint64_t before = platform_now_ns();
    of_clock_ = platform_now_ns() - before;
  }

 private:
  uint64_t of_clock_ = 0;  // instructions between two looks at the clock
};

}  // namespace

EventTracer* cost_tracer() {
  alignas(CostTracer) static unsigned char place[sizeof(CostTracer)];  // never destroyed
  auto* const tracer = new (place) CostTracer;
  platform_set_clock(&board::instructions);
  tracer->calibrate();
  return tracer;
}

}  // namespace firmware
