#include "ir/delegate_parser.h"

#include "base/checked_math.h"

namespace et::ir {
namespace {

template <typename T>
bool parse_number(Scanner& scan, T* number) {
  uint64_t value = 0;
  const size_t start = scan.position();
  if (!scan.expect_unsigned("a number of a step", &value)) {
    return false;
  }
  return !narrow_overflow(value, number) || scan.fail_at(start, "the number is too large");
}

bool parse_spec(Scanner& scan, Delegate::CompileSpec* spec) {
  return scan.expect("(", "after spec") && scan.expect_string("a key", &spec->key) &&
         scan.expect(",", "after the key") && scan.expect_string("a value", &spec->value) &&
         scan.expect(")", "after the value");
}

/// step(id, operator, fx node, module, file, line, handles …)
bool parse_step(Scanner& scan, Delegate::Step* step) {
  bool is_right = scan.expect("(", "after step") && parse_number(scan, &step->id);
  for (std::string* text : {&step->op, &step->source.fx_name, &step->source.module_path, &step->source.file}) {
    is_right = is_right && scan.expect(",", "in a step") && scan.expect_string("a text", text);
  }
  is_right = is_right && scan.expect(",", "before the line") && parse_number(scan, &step->source.line);
  while (is_right && scan.try_token(",")) {
    is_right = parse_number(scan, &step->handles.emplace_back());
  }
  return is_right && scan.expect(")", "after the step");
}

}  // namespace

bool parse_delegate(Scanner& scan, Delegate* delegate) {
  bool is_right = scan.expect_string("the id of a backend", &delegate->backend_id);
  while (is_right && scan.try_token("spec")) {
    is_right = parse_spec(scan, &delegate->compile_specs.emplace_back());
  }
  while (is_right && scan.try_token("step")) {
    is_right = parse_step(scan, &delegate->steps.emplace_back());
  }
  return is_right && scan.expect("=", "before the payload") && scan.expect_string("the payload", &delegate->payload);
}

}  // namespace et::ir
