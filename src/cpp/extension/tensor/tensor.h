/// TensorPtr and everything that makes one, under the published name of this header.
#pragma once

#include "extension/published.h"
#include "extension/tensor/tensor_ptr.h"
#include "extension/tensor/tensor_ptr_maker.h"
