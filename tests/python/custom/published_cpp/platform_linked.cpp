// As the published page on the platform layer does it: functions of the application take the place of the system's.
#include <executorch_py/extension/module/module.h>
#include <executorch_py/runtime/platform/log.h>
#include <executorch_py/runtime/platform/platform.h>
#include <executorch_py/runtime/platform/runtime.h>

#undef NDEBUG
#include <cassert>
#include <cstdlib>
#include <string>

namespace {
std::string last;
int inits = 0;
et_timestamp_t now = 0;
}  // namespace

void et_pal_init() { ++inits; }
et_timestamp_t et_pal_current_ticks() { return now; }
et_tick_ratio_t et_pal_ticks_to_ns_multiplier() { return {1000, 3}; }
void et_pal_emit_log_message(et_timestamp_t, et_pal_log_level_t level, const char*, const char*, size_t,
                             const char* message, size_t length) {
  last = static_cast<char>(level) + std::string(" ") + std::string(message, length);
}
void et_pal_abort() { std::_Exit(last.find("sums") == std::string::npos ? 1 : 0); }

int main() {
  executorch::runtime::runtime_init();
  assert(inits == 1);
  executorch::extension::Module missing("no_such_file.pte");
  assert(missing.load() != executorch::runtime::Error::Ok && last[0] == 'E');
  ET_LOG(Info, "%s", "a notice");
  assert(last == "I a notice");
  now = 30;
  assert(executorch::runtime::pal_current_ticks() == 30);
  ET_CHECK_MSG(1 + 1 == 3, "%s", "sums");
  return 1;
}
