/// The library's memory for values inside of graphs: one block for all delegates of a method.
///
/// For: delegate.cpp. Calls of a method's delegates follow one another, and nothing stays in the block between them. A
/// block for each delegate took 156 MB of a vision transformer that has 24 of them, new to the process at the first
/// call. Not for: what goes in and out of a delegate, which the method's plan places.
///
///     const std::shared_ptr<xnn_workspace> workspace = workspace_of(context.method);
///     xnn_create_runtime_v4(…, workspace.get(), …);
#pragma once

#include <xnnpack.h>

#include <memory>

namespace et::backends::xnnpack {

/// That of `method`, made when the first needs it; it lives as long as one has it. nullptr as `method`: one of its
/// own. The result is nullptr where there is no memory. Threads: safe.
std::shared_ptr<xnn_workspace> workspace_of(const void* method);

}  // namespace et::backends::xnnpack
