#include "ir/pattern_text.h"

#include <algorithm>
#include <cmath>

#include "ir/scanner.h"
#include "ops/names.h"
#include "ops/op_table.h"

namespace et::ir {
namespace {

/// Operators that do the same, by one name.
constexpr std::pair<std::string_view, std::string_view> kFamilies[] = {
    {"cast", op::dim_order_ops_to_dim_order_copy},
    {"cast", op::_to_copy},
    {"quantize", op::quantized_decomposed_quantize_per_tensor},
    {"dequantize", op::quantized_decomposed_dequantize_per_tensor},
};

constexpr std::string_view kCopy = "_copy";

std::string_view without_overload(std::string_view name) { return name.substr(0, name.find('.')); }

/// "aten::view.dtype" of "aten::view_copy.dtype".
std::string without_copy(std::string_view name) {
  const std::string_view plain = without_overload(name);
  const bool copies = plain.size() > kCopy.size() && plain.substr(plain.size() - kCopy.size()) == kCopy;
  return copies ? std::string(plain.substr(0, plain.size() - kCopy.size())) + std::string(name.substr(plain.size()))
                : std::string(name);
}

Callee::Order order_of(const ops::OpInfo& op, bool is_swapped) {
  return is_swapped                      ? Callee::Order::kSwapped
         : op.has_tag(ops::kCommutative) ? Callee::Order::kEither
                                         : Callee::Order::kGiven;
}

/// All operators that a name in a pattern stands for.
std::vector<Callee> callees_of(std::string_view name) {
  if (name == "constant") {
    return {{nullptr, Callee::Order::kGiven}};
  }
  std::vector<Callee> found;
  for (const auto& [family, op] : kFamilies) {
    if (family == name) {
      found.push_back({ops::find_op(op), Callee::Order::kGiven});
    }
  }
  const std::string full = name.find("::") == std::string_view::npos ? "aten::" + std::string(name) : std::string(name);
  for (const ops::OpInfo& op : ops::all_ops()) {
    const bool is_swapped =
        full == without_overload(op::sub_Tensor) && without_overload(op.name) == without_overload(op::rsub_Tensor);
    const std::string plain = without_copy(op.name);
    if (is_swapped || op.name == full || plain == full || without_overload(plain) == full) {
      found.push_back({&op, order_of(op, is_swapped)});
    }
  }
  return found;
}

class Compiler {
 public:
  explicit Compiler(std::string_view text) : text_(text), scanner_(text) {}

  Pattern::Compiled run() {
    while (!scanner_.at_end() && !scanner_.failed()) {
      definition();
    }
    if (made_.names.empty()) {
      scanner_.fail("a pattern has a definition");
    }
    for (const Term& term : made_.terms) {
      check(term);
    }
    for (size_t name = 0; name < made_.names.size() && !scanner_.failed(); ++name) {
      std::vector<size_t> inside;
      check(name, inside);
    }
    if (scanner_.failed()) {
      made_.error = scanner_.error().to_string();
    }
    return std::move(made_);
  }

 private:
  void definition() {
    std::string_view text;
    if (!scanner_.expect_name("the name of a definition", &text) || !scanner_.expect("=", "behind its name")) {
      return;
    }
    const size_t name = name_of(text);
    if (made_.names[name].definition) {
      scanner_.fail("a second definition of " + std::string(text));
      return;
    }
    const size_t term = either();
    made_.names[name].definition = term;
  }

  size_t either() {
    Term term;
    term.kind = Term::Kind::kEither;
    do {
      term.terms.push_back(one());
    } while (scanner_.try_token("|"));
    return term.terms.size() == 1 ? term.terms.front() : add(std::move(term));
  }

  size_t one() {
    Term term;
    if (scanner_.try_token("[")) {
      term.kind = Term::Kind::kList;
      do {
        term.list.push_back(number());
      } while (scanner_.try_token(","));
      scanner_.expect("]", "behind a list");
      return add(std::move(term));
    }
    const char next = scanner_.peek();
    if ((next >= '0' && next <= '9') || next == '-') {
      term.kind = Term::Kind::kNumber;
      term.number = number();
      return add(std::move(term));
    }
    term.is_kept = scanner_.try_token("&");
    const size_t start = scanner_.position();
    std::string written;
    if (!scanner_.expect_op(&written)) {
      return add(std::move(term));
    }
    const std::string_view name = text_.substr(start, written.size());
    term.count = scanner_.try_token("?")   ? Term::Count::kOptional
                 : scanner_.try_token("*") ? Term::Count::kMany
                                           : Term::Count::kOne;
    if (scanner_.try_token("(")) {
      call(name, term);
    } else if (term.is_kept || term.count != Term::Count::kOne) {
      scanner_.fail("&, ? and * belong to a node");
    } else if (name == "none") {
      term.kind = Term::Kind::kNone;
    } else if (name == "inf") {
      term.kind = Term::Kind::kNumber;
      term.number = HUGE_VAL;
    } else if (name.find_first_of(".:") != std::string_view::npos) {
      scanner_.fail("an operator without arguments; a name has no '.' and no ':'");
    } else if (name != "_") {
      term.kind = Term::Kind::kName;
      term.name = name_of(name);
    }
    return add(std::move(term));
  }

  void call(std::string_view name, Term& term) {
    term.kind = Term::Kind::kCall;
    term.callees = callees_of(name);
    if (term.callees.empty()) {
      scanner_.fail("no operator is called " + std::string(name));
    }
    while (!scanner_.failed() && !scanner_.try_token(")")) {
      if (scanner_.try_token("...")) {
        term.is_open = true;
      } else {
        argument(term);
      }
      if (scanner_.peek() != ')') {
        scanner_.expect(",", "between arguments");
      }
    }
    if (scanner_.try_token("#_")) {
      term.result.reset();
    } else if (scanner_.try_token("#")) {
      uint64_t result = 0;
      scanner_.expect_unsigned("a result's number", &result);
      term.result = static_cast<size_t>(result);
    }
  }

  /// name=term or a term. A name without = is the term.
  void argument(Term& call) {
    const size_t made = either();
    const Term& term = made_.terms[made];
    std::string_view name;
    if (term.kind == Term::Kind::kName && scanner_.try_token("=")) {
      name = made_.names[term.name].text;
      if (!made_.names[term.name].definition && term.name + 1 == made_.names.size()) {
        made_.names.pop_back();  // an argument's name, no capture
      }
      const size_t value = either();
      call.terms.push_back(value);
    } else {
      call.terms.push_back(made);
    }
    call.argument_names.push_back(name);
  }

  double number() {
    const double sign = scanner_.try_token("-") ? -1 : 1;
    double value = HUGE_VAL;
    if (!scanner_.try_token("inf")) {
      scanner_.expect_double("a number", &value);
    }
    return sign * value;
  }

  /// An operator of the call has all arguments that are written.
  void check(const Term& call) {
    const auto has = [](const ops::OpInfo& op, std::string_view wanted) {
      return std::any_of(op.arguments.begin(), op.arguments.end(),
                         [&](const ops::Argument& argument) { return argument.name == wanted; });
    };
    const auto fits = [&](const Callee& callee) {
      const auto& names = call.argument_names;
      return callee.op == nullptr ? names.empty()
                                  : names.size() <= callee.op->arguments.size() &&
                                        std::all_of(names.begin(), names.end(), [&](std::string_view name) {
                                          return name.empty() || has(*callee.op, name);
                                        });
    };
    if (call.kind == Term::Kind::kCall && std::none_of(call.callees.begin(), call.callees.end(), fits)) {
      scanner_.fail(call.callees.empty() || call.callees[0].op == nullptr
                        ? "a constant has no arguments"
                        : std::string(call.callees[0].op->name) + " has no such arguments");
    }
  }

  /// No definition begins with itself, and all rules have one.
  void check(size_t name, std::vector<size_t>& inside) {
    const Pattern::Compiled::Name& checked = made_.names[name];
    if (std::find(inside.begin(), inside.end(), name) != inside.end()) {
      scanner_.fail(std::string(checked.text) + " begins with itself");
    } else if (checked.is_rule && !checked.definition) {
      scanner_.fail("no definition of " + std::string(checked.text));
    } else if (checked.definition) {
      inside.push_back(name);
      check_start(*checked.definition, inside);
      inside.pop_back();
    }
  }

  void check_start(size_t index, std::vector<size_t>& inside) {
    const Term& term = made_.terms[index];
    if (term.kind == Term::Kind::kName) {
      check(term.name, inside);
    } else if (term.kind == Term::Kind::kEither || (term.count != Term::Count::kOne && !term.terms.empty())) {
      for (size_t i = 0; i < (term.kind == Term::Kind::kEither ? term.terms.size() : 1); ++i) {
        check_start(term.terms[i], inside);
      }
    }
  }

  size_t name_of(std::string_view text) {
    const auto found = std::find_if(made_.names.begin(), made_.names.end(),
                                    [&](const Pattern::Compiled::Name& name) { return name.text == text; });
    if (found != made_.names.end()) {
      return static_cast<size_t>(found - made_.names.begin());
    }
    made_.names.push_back({text, std::nullopt, text[0] >= 'A' && text[0] <= 'Z'});
    return made_.names.size() - 1;
  }

  size_t add(Term term) {
    made_.terms.push_back(std::move(term));
    return made_.terms.size() - 1;
  }

  std::string_view text_;
  Scanner scanner_;
  Pattern::Compiled made_;
};

}  // namespace

Pattern::Compiled compile(std::string_view text) { return Compiler(text).run(); }

}  // namespace et::ir
