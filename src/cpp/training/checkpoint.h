/// Checkpoints: named tensors in a `.ptd` file, and back into memory.
///
/// For: parameters, running statistics and what an optimizer remembers. A `.ptd` is the format of external weights as
/// well, so a checkpoint of parameters can be given to a program that was exported with external weights of these
/// names.
///
///     ET_RETURN_IF_ERROR(save_ptd("step_100.ptd", state));        // TrainingModule::named_state, Optimizer::state
///     ET_RETURN_IF_ERROR(load_ptd("step_100.ptd", state));
#pragma once

#include "training/named_tensors.h"

namespace et::training {

/// Writes tensors to a file, whole or not at all: under a temporary name in the same folder, which is renamed.
/// Errors: AccessFailed, naming the path; OutOfResources for more names than a file can hold.
Error save_ptd(const std::string& path, const NamedTensors& tensors);

/// Fills tensors with what a file has under their names, all of them or none. The file may have more.
/// Errors: AccessFailed; InvalidExternalData when the file is no `.ptd`, or a tensor is missing in it or of another
/// element type, shape or memory order there, as in the checkpoint of another model.
Error load_ptd(const std::string& path, const NamedTensors& tensors);

}  // namespace et::training
