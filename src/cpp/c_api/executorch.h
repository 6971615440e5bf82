/* Loading and running programs from C, and from every language that can call C.
 *
 *     et_program* program;
 *     et_method* method;
 *     float x[2] = {1, 2};
 *     int64_t sizes[2] = {1, 2};
 *     et_tensor in = {ET_FLOAT, 2, sizes, x, sizeof(x)}, out;
 *     if (et_init() || et_program_load_file("model.pte", NULL, &program) ||
 *         et_method_load(program, "forward", &method) || et_method_set_input(method, 0, &in) ||
 *         et_method_execute(method) || et_method_get_output(method, 0, &out))
 *       puts(et_last_error());
 *
 * Functions that can fail give an et_status, 0 when all is well; et_last_error() says why not. Nothing ends the
 * process: a null handle, a damaged file, a wrong dtype or shape and memory that runs out are errors.
 * Ownership: who loads frees. A method keeps its program alive, so that the order does not matter. Strings and tensors
 * that are given out belong to the library, for as long as said beside each function.
 * Threads: a program may be used by any; a method by one at a time, but for et_method_cancel.
 * ABI: within one ET_ABI_VERSION structures and functions stay as they are; functions may be added. */
#ifndef EXECUTORCH_H_
#define EXECUTORCH_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define ET_C_API
#else
#define ET_C_API __attribute__((visibility("default")))
#endif

#define ET_ABI_VERSION 1u

/* The codes of docs/reference/error_handling.md; these are the ones that programs look at. */
typedef int32_t et_status;
#define ET_OK 0x00
#define ET_INVALID_STATE 0x02
#define ET_CANCELLED 0x05
#define ET_NOT_SUPPORTED 0x10
#define ET_INVALID_ARGUMENT 0x12
#define ET_INVALID_TYPE 0x13
#define ET_OPERATOR_MISSING 0x14
#define ET_NOT_FOUND 0x20
#define ET_OUT_OF_MEMORY 0x21
#define ET_ACCESS_FAILED 0x22
#define ET_INVALID_PROGRAM 0x23

/* Element types, with the numbers that files have; others are passed on as they are. */
typedef int32_t et_dtype;
#define ET_UINT8 0
#define ET_INT8 1
#define ET_INT16 2
#define ET_INT32 3
#define ET_INT64 4
#define ET_HALF 5
#define ET_FLOAT 6
#define ET_DOUBLE 7
#define ET_BOOL 11
#define ET_BFLOAT16 15

/* Kinds of values. */
typedef int32_t et_kind;
#define ET_KIND_OTHER 0
#define ET_KIND_TENSOR 1
#define ET_KIND_INT 2
#define ET_KIND_DOUBLE 3
#define ET_KIND_BOOL 4

typedef struct et_program et_program;
typedef struct et_method et_method;

/* Elements in memory, in the order of dimensions that et_tensor_info.dim_order says. */
typedef struct et_tensor {
  et_dtype dtype;
  int32_t rank;
  const int64_t* sizes; /* [rank] */
  void* data;
  size_t nbytes;
} et_tensor;

/* What a method takes or gives. Pointers are valid as long as the method. */
typedef struct et_tensor_info {
  et_dtype dtype;
  int32_t rank;
  const int32_t* sizes;     /* [rank]: the largest, where they change from call to call */
  const uint8_t* dim_order; /* [rank]: outermost dimension first */
  size_t nbytes;            /* at these sizes */
} et_tensor_info;

/* Where a method's memory comes from. `release` gets what `allocate` gave. Both are called by the thread that loads,
 * runs or frees the method. NULL from `allocate` is ET_OUT_OF_MEMORY. */
typedef struct et_allocator {
  void* context;
  void* (*allocate)(void* context, size_t nbytes, size_t alignment);
  void (*release)(void* context, void* memory);
} et_allocator;

/* How a program is loaded. Begin with et_options options = ET_OPTIONS_INIT; a NULL pointer means the same. */
typedef struct et_options {
  uint32_t abi_version;
  int32_t read_file;             /* 1: read into memory; 0: mapped, and must not be changed or cut off meanwhile */
  const char* const* data_files; /* .ptd files with external weights */
  size_t num_data_files;
  const et_allocator* allocator; /* of methods; NULL: the heap. Must outlive them */
} et_options;
#define ET_OPTIONS_INIT {ET_ABI_VERSION, 0, NULL, 0, NULL}

/* ET_NOT_SUPPORTED where the library has another ABI than this header. Messages that went to stderr go to
 * et_last_error from now on. Call it first; once more does nothing. */
#define et_init() et_init_abi(ET_ABI_VERSION)
ET_C_API et_status et_init_abi(uint32_t version);
ET_C_API uint32_t et_abi_version(void);

/* Why the last call on this thread failed; "" when it did not. Valid until the next call on this thread. */
ET_C_API const char* et_last_error(void);
/* "InvalidArgument"; "Unknown" for a number that is no status. */
ET_C_API const char* et_status_name(et_status status);

/* Threads that kernels share, of the whole process, 4096 at most; 0: as many as there are processors. */
ET_C_API et_status et_set_num_threads(size_t count);

ET_C_API et_status et_program_load_file(const char* path, const et_options* options, et_program** out);
/* `data` must stay as long as the program and its methods. */
ET_C_API et_status et_program_load_memory(const void* data, size_t nbytes, const et_options* options, et_program** out);
/* As these two, keeping what kernels pack of weights in a file of directory `pack_cache`, which later processes map.
 * A program that is read (read_file) is ET_INVALID_ARGUMENT. */
ET_C_API et_status et_program_load_file_packed(const char* path, const et_options* options, const char* pack_cache,
                                               et_program** out);
ET_C_API et_status et_program_load_memory_packed(const void* data, size_t nbytes, const et_options* options,
                                                 const char* pack_cache, et_program** out);
ET_C_API void et_program_free(et_program* program);
ET_C_API size_t et_program_num_methods(const et_program* program);
/* NULL when there is no method `i`. */
ET_C_API const char* et_program_method_name(const et_program* program, size_t i);

ET_C_API et_status et_method_load(et_program* program, const char* name, et_method** out);
ET_C_API void et_method_free(et_method* method);
ET_C_API size_t et_method_num_inputs(const et_method* method);
ET_C_API size_t et_method_num_outputs(const et_method* method);
ET_C_API et_kind et_method_input_kind(const et_method* method, size_t i);
ET_C_API et_kind et_method_output_kind(const et_method* method, size_t i);
ET_C_API et_status et_method_input_info(const et_method* method, size_t i, et_tensor_info* out);
ET_C_API et_status et_method_output_info(const et_method* method, size_t i, et_tensor_info* out);
/* The name in the model, "" when the file does not say, NULL when there is no such input. */
ET_C_API const char* et_method_input_name(const et_method* method, size_t i);

/* Borrowed until the end of the next et_method_execute; `sizes` only for this call. */
ET_C_API et_status et_method_set_input(et_method* method, size_t i, const et_tensor* tensor);
ET_C_API et_status et_method_set_input_int(et_method* method, size_t i, int64_t value);
ET_C_API et_status et_method_set_input_double(et_method* method, size_t i, double value);
ET_C_API et_status et_method_set_input_bool(et_method* method, size_t i, int32_t value);
ET_C_API et_status et_method_execute(et_method* method);
/* Valid until the next set_input, execute or free of the method. */
ET_C_API et_status et_method_get_output(et_method* method, size_t i, et_tensor* out);
ET_C_API et_status et_method_get_output_int(et_method* method, size_t i, int64_t* out);
ET_C_API et_status et_method_get_output_double(et_method* method, size_t i, double* out);
ET_C_API et_status et_method_get_output_bool(et_method* method, size_t i, int32_t* out); /* 0 or 1 */
/* The model's state (mutable buffers), which methods of a program share, back to its initial values. */
ET_C_API et_status et_method_reset_state(et_method* method);
/* Ends a running execution with ET_CANCELLED soon. From any thread or a signal handler. */
ET_C_API void et_method_cancel(et_method* method);

#ifdef __cplusplus
}
#endif

#endif /* EXECUTORCH_H_ */
