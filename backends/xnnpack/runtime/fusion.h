/// Makes one node of a Clamp or a Copy and the node before it, as the library does when it makes a runtime.
///
/// For: model.cpp, before sizes are inferred. The library merges the bounds of a clamp in a union, where a convolution,
/// pooling or fully connected node has its paddings. Its results then have other sizes than this runtime has checked.
/// It leaves out copies first, which makes new neighbours. Nothing that it would fuse a clamp into may be left. What
/// else it fuses is safe: a pad of zeros adds to the paddings of a convolution of the same kind, and a copy that is
/// read once is read at its source. The rewritings for sparse, float16 and channels-first are off, because no runtime
/// is made with their flags.
#pragma once

#include "backends/xnnpack/runtime/model.h"

namespace et::backends::xnnpack {

/// Leaves values that nothing makes and nothing reads. **Errors:** InvalidProgram for a clamp behind a max pooling that
/// converts between scales, which the fused node would not do.
Error fuse_nodes(Model& model);

}  // namespace et::backends::xnnpack
