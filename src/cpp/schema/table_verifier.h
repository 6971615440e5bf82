/// Verifies the tables of a flatbuffer, whatever their schema, in one loop over a description of their fields.
///
/// For: bytes that nobody has looked at yet, before anything reads them with generated accessors. Accepts what
/// FlatBuffers' generated verifiers accept, in a third of their code. Not for: what the numbers mean.
///
///     if (!schema::verify_tables({bytes.data(), bytes.size()}, schema::kProgramLayouts)) {
///       return Error::InvalidProgram;
///     }
///     const schema::Program& program = *schema::GetProgram(bytes.data());
///
/// "schema/<name>_layout.h" is generated from <name>.fbs (tools/gen_table_layouts.py).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/span.h"

namespace et::schema {

/// What a field of a table is. `of` of FieldLayout stands in brackets.
enum class FieldKind : uint8_t {
  kNumber,     ///< a number, an enum or a bool [bytes]
  kVector,     ///< of numbers or structs [bytes of an element]
  kString,     ///< with a zero byte behind it
  kStrings,    ///< a vector of strings
  kTable,      ///< [number of its layout]
  kTables,     ///< a vector of tables [number of their layout]
  kUnionType,  ///< which member of a union the next field holds, from 1 on [how many there are]
  kUnion,      ///< a table [number of the first member's layout; the others follow]
};

struct FieldLayout {
  FieldKind kind;
  uint8_t of;
};

/// The tables of a schema; that of the root is number 0.
struct TableLayouts {
  const FieldLayout* fields;    ///< of all tables, one after the other
  const uint8_t* first_fields;  ///< [tables + 1]: where those of a table begin
  const char* identifier;       ///< bytes 4 to 7 of a file
};

/// True when every offset, length and string in `bytes` lies inside of them, so that no accessor leads outside.
///
/// Units: numbers and lengths stand at multiples of their size from the first byte on; elements of vectors need not.
/// Memory: some 300 bytes of stack; no recursion. Time: linear in the size of `bytes`, whatever refers to what.
bool verify_tables(Span<const uint8_t> bytes, const TableLayouts& layouts);

}  // namespace et::schema
