// What each instruction of the method costs: for `etpy firmware --cost`, which builds with -DEXECUTORCH_COST=ON.
//
// Not by trace.h: an ETDump records the allocations inside of a kernel in the kernel's span, some 300 instructions
// each.
#pragma once

#include "runtime/event_tracer.h"

namespace firmware {

#ifndef FIRMWARE_COST
inline constexpr size_t kTracerBytes = 0;  // that loading takes of the method pool for a tracer
inline et::runtime::EventTracer* cost_tracer() { return nullptr; }
#else
inline constexpr size_t kTracerBytes = 256;
/// Writes "cost: place instructions" for each instruction that ran.
et::runtime::EventTracer* cost_tracer();
#endif

}  // namespace firmware
