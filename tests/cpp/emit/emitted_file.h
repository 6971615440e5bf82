/// From the text form to a file in memory, and a printed form of its plan. For the emitter's tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "emit/emit.h"
#include "ir/parser.h"
#include "planning/plan_memory.h"
#include "schema/program_generated.h"

namespace et::emit {

/// The program of `text`; methods at kLowered are planned.
inline std::shared_ptr<ir::Program> planned(const std::string& text) {
  ir::ParseError error;
  Result<std::unique_ptr<ir::Program>> program = ir::parse(text, &error);
  if (!program.ok()) {
    ADD_FAILURE() << error.to_string();
    return std::make_shared<ir::Program>();
  }
  std::shared_ptr<ir::Program> shared(std::move(*program));
  EXPECT_EQ(planning::plan_memory(*shared, {}), Error::Ok);
  return shared;
}

struct EmittedFile {
  std::vector<uint8_t> bytes;
  Error error = Error::Ok;
  ir::Diagnostics diagnostics;

  const schema::Program* program() const { return schema::GetProgram(bytes.data()); }
};

inline std::vector<uint8_t> bytes_of(const File& file) {
  std::vector<uint8_t> bytes(file.nbytes);
  MemorySink sink(bytes.data(), bytes.size());
  EXPECT_EQ(file.write(sink), Error::Ok);
  return bytes;
}

inline EmittedFile emit_text(const std::string& text, const EmitOptions& options = {}) {
  EmittedFile out;
  Emitted emitted;
  out.error = emit(planned(text), options, emitted, out.diagnostics);
  if (out.error == Error::Ok) {
    out.bytes = bytes_of(emitted.program);
    flatbuffers::Verifier verifier(out.bytes.data(), out.bytes.size());
    EXPECT_TRUE(schema::VerifyProgramBuffer(verifier));
  }
  return out;
}

/// "aten::add.out 0 1 2 3 3", "jump 5 unless 4", "move 1 2", "delegate 0 : 1 2" of instruction `index`.
inline std::string instruction(const schema::ExecutionPlan& plan, uint32_t index) {
  const schema::Instruction* item = plan.chains()->Get(0)->instructions()->Get(index);
  std::string text;
  const auto append = [&text](const auto* args) {
    for (const int32_t arg : *args) {
      text += " " + std::to_string(arg);
    }
  };
  if (const auto* call = item->instr_args_as_KernelCall()) {
    const schema::Operator* op = plan.operators()->Get(static_cast<uint32_t>(call->op_index()));
    text = op->name()->str() + (op->overload()->size() == 0 ? "" : "." + op->overload()->str());
    append(call->args());
  } else if (const auto* delegate = item->instr_args_as_DelegateCall()) {
    text = "delegate " + std::to_string(delegate->delegate_index()) + " :";
    append(delegate->args());
  } else if (const auto* move = item->instr_args_as_MoveCall()) {
    text = "move " + std::to_string(move->move_from()) + " " + std::to_string(move->move_to());
  } else if (const auto* jump = item->instr_args_as_JumpFalseCall()) {
    text = "jump " + std::to_string(jump->destination_instruction()) + " unless " +
           std::to_string(jump->cond_value_index());
  }
  return text;
}

inline std::vector<std::string> instructions(const schema::ExecutionPlan& plan) {
  std::vector<std::string> lines;
  for (uint32_t i = 0; i < plan.chains()->Get(0)->instructions()->size(); ++i) {
    lines.push_back(instruction(plan, i));
  }
  return lines;
}

}  // namespace et::emit
