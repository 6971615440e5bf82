/* executorch.h as a C program uses it, and misuses it. */
#define _POSIX_C_SOURCE 200809L
#include "c_api/executorch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int num_failed = 0;

#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      ++num_failed;                                                                           \
      printf("%s:%d: %s, last error: %s\n", __FILE__, __LINE__, #condition, et_last_error()); \
    }                                                                                         \
  } while (0)
/* The call gives `code` and a text with `part`. */
#define FAILS(call, code, part)                     \
  do {                                              \
    CHECK((call) == (code));                        \
    CHECK(strstr(et_last_error(), (part)) != NULL); \
  } while (0)

static const char* const kLinear = ET_MODELS "/official_linear.pte"; /* float32 [2, 4] -> float32 [2, 3] */
static const char* const kCounter = ET_MODELS "/official_acc_init.pte";

static et_method* load(const char* path, const et_options* options) {
  et_program* program = NULL;
  et_method* method = NULL;
  CHECK(et_program_load_file(path, options, &program) == ET_OK);
  CHECK(et_method_load(program, "forward", &method) == ET_OK);
  et_program_free(program); /* the method keeps it */
  return method;
}

static et_status run(et_method* method, float scale, float result[6]) {
  float x[8];
  int64_t sizes[2] = {2, 4};
  et_tensor in = {ET_FLOAT, 2, NULL, NULL, sizeof(x)}, out;
  et_status status;
  int i;
  in.sizes = sizes;
  in.data = x;
  for (i = 0; i < 8; ++i) {
    x[i] = scale * (float)i;
  }
  if ((status = et_method_set_input(method, 0, &in)) != ET_OK || (status = et_method_execute(method)) != ET_OK ||
      (status = et_method_get_output(method, 0, &out)) != ET_OK) {
    return status;
  }
  CHECK(out.dtype == ET_FLOAT && out.rank == 2 && out.sizes[0] == 2 && out.sizes[1] == 3 && out.nbytes == 24);
  memcpy(result, out.data, 24);
  return ET_OK;
}

static void test_versions(void) {
  et_options options = ET_OPTIONS_INIT;
  et_program* program = NULL;
  CHECK(et_init() == ET_OK && et_abi_version() == ET_ABI_VERSION);
  FAILS(et_init_abi(ET_ABI_VERSION + 1), ET_NOT_SUPPORTED, "compiled for ABI version");
  options.abi_version = 77;
  FAILS(et_program_load_file(kLinear, &options, &program), ET_NOT_SUPPORTED, "ABI version 77");
  CHECK(program == NULL);
  CHECK(strcmp(et_status_name(ET_OUT_OF_MEMORY), "MemoryAllocationFailed") == 0);
  CHECK(strcmp(et_status_name(-5), "Unknown") == 0);
}

static void test_metadata(void) {
  et_program* program = NULL;
  et_method* method = NULL;
  et_tensor_info info;
  CHECK(et_program_load_file(kLinear, NULL, &program) == ET_OK);
  CHECK(et_program_num_methods(program) == 1 && strcmp(et_program_method_name(program, 0), "forward") == 0);
  CHECK(et_program_method_name(program, 1) == NULL);
  FAILS(et_method_load(program, "backward", &method), ET_NOT_FOUND, "backward");
  CHECK(method == NULL);
  CHECK(et_method_load(program, "forward", &method) == ET_OK);
  CHECK(et_method_num_inputs(method) == 1 && et_method_num_outputs(method) == 1);
  CHECK(et_method_input_kind(method, 0) == ET_KIND_TENSOR && et_method_output_kind(method, 9) == ET_KIND_OTHER);
  CHECK(et_method_input_name(method, 0) != NULL && et_method_input_name(method, 1) == NULL);
  CHECK(et_method_input_info(method, 0, &info) == ET_OK);
  CHECK(info.dtype == ET_FLOAT && info.rank == 2 && info.sizes[1] == 4 && info.dim_order[0] == 0 && info.nbytes == 32);
  FAILS(et_method_output_info(method, 1, &info), ET_INVALID_ARGUMENT, "1");
  et_method_free(method);
  et_program_free(program);
}

static void test_wrong_calls(void) {
  et_method* const method = load(kLinear, NULL);
  float x[16] = {0}, result[6];
  int64_t sizes[2] = {2, 4}, other[2] = {2, 5}, negative[2] = {-2, 4};
  et_tensor in = {ET_FLOAT, 2, NULL, NULL, 32}, out;
  int64_t number;
  in.sizes = sizes;
  in.data = x;
  FAILS(et_method_get_output(method, 0, &out), ET_INVALID_STATE, "has not run");
  CHECK(et_method_execute(method) != ET_OK && et_last_error()[0] != '\0'); /* no input */
  in.dtype = ET_DOUBLE;
  in.nbytes = 64;
  FAILS(et_method_set_input(method, 0, &in), ET_INVALID_TYPE, "float64");
  in.dtype = 99;
  FAILS(et_method_set_input(method, 0, &in), ET_INVALID_TYPE, "99");
  in.dtype = ET_FLOAT;
  in.nbytes = 32;
  in.sizes = other;
  FAILS(et_method_set_input(method, 0, &in), ET_INVALID_ARGUMENT, "40 bytes");
  in.nbytes = 40;
  FAILS(et_method_set_input(method, 0, &in), ET_INVALID_ARGUMENT, "5");
  in.sizes = negative;
  FAILS(et_method_set_input(method, 0, &in), ET_INVALID_ARGUMENT, "negative");
  in.sizes = NULL;
  FAILS(et_method_set_input(method, 0, &in), ET_INVALID_ARGUMENT, "null");
  in.sizes = sizes;
  in.nbytes = 32;
  in.rank = 1;
  FAILS(et_method_set_input(method, 0, &in), ET_INVALID_ARGUMENT, "rank");
  in.rank = 2;
  in.data = NULL;
  FAILS(et_method_set_input(method, 0, &in), ET_INVALID_ARGUMENT, "memory");
  FAILS(et_method_set_input(method, 3, &in), ET_INVALID_ARGUMENT, "no input 3");
  FAILS(et_method_set_input_int(method, 0, 1), ET_INVALID_TYPE, "input 0");
  FAILS(et_method_set_input(NULL, 0, &in), ET_INVALID_ARGUMENT, "method is null");
  FAILS(et_method_set_input(method, 0, NULL), ET_INVALID_ARGUMENT, "null");
  CHECK(run(method, 1, result) == ET_OK); /* usable after all that */
  FAILS(et_method_get_output_int(method, 0, &number), ET_INVALID_TYPE, "not an int");
  FAILS(et_method_get_output(method, 7, &out), ET_INVALID_ARGUMENT, "no output 7");
  CHECK(et_method_get_output(method, 0, &out) == ET_OK && et_last_error()[0] == '\0');
  et_method_free(method);
  et_method_free(NULL);
  et_program_free(NULL);
}

static void test_files(void) {
  et_program* program = NULL;
  et_options options = ET_OPTIONS_INIT;
  const char* no_file = "no.ptd";
  static unsigned char bytes[1 << 16];
  size_t nbytes, length;
  FILE* file = fopen(kLinear, "rb");
  CHECK(file != NULL);
  nbytes = fread(bytes, 1, sizeof(bytes), file);
  fclose(file);
  FAILS(et_program_load_file("missing.pte", NULL, &program), ET_ACCESS_FAILED, "missing.pte");
  FAILS(et_program_load_file(NULL, NULL, &program), ET_INVALID_ARGUMENT, "null");
  FAILS(et_program_load_file(kLinear, NULL, NULL), ET_INVALID_ARGUMENT, "null");
  options.data_files = &no_file;
  options.num_data_files = 1;
  FAILS(et_program_load_file(kLinear, &options, &program), ET_ACCESS_FAILED, "no.ptd");
  for (length = 0; length < nbytes; length += 37) { /* cut off anywhere */
    CHECK(et_program_load_memory(bytes, length, NULL, &program) != ET_OK && program == NULL);
    CHECK(et_last_error()[0] != '\0');
  }
  memset(bytes + nbytes, 'x', 64);
  FAILS(et_program_load_memory(bytes + nbytes, 64, NULL, &program), ET_INVALID_PROGRAM, "");
  CHECK(et_program_load_memory(bytes, nbytes, NULL, &program) == ET_OK);
  et_program_free(program);
  options.num_data_files = 0;
  options.read_file = 1;
  CHECK(et_program_load_file(kLinear, &options, &program) == ET_OK);
  et_program_free(program);
}

/* An allocator that counts, and gives nothing from the n-th request on. */
typedef struct {
  long requests, live, fails_at;
} counter;

static void* counted_allocate(void* context, size_t nbytes, size_t alignment) {
  counter* const counts = context;
  void* memory = NULL;
  if (++counts->requests == counts->fails_at ||
      posix_memalign(&memory, alignment < sizeof(void*) ? sizeof(void*) : alignment, nbytes) != 0) {
    return NULL;
  }
  ++counts->live;
  return memory;
}

static void counted_release(void* context, void* memory) {
  --((counter*)context)->live;
  free(memory);
}

static void test_allocator(void) {
  counter counts = {0, 0, 0};
  et_allocator allocator = {NULL, counted_allocate, counted_release};
  et_options options = ET_OPTIONS_INIT;
  et_program* program = NULL;
  et_method* method = NULL;
  float expected[6], result[6];
  long requests, n;
  method = load(kLinear, NULL);
  CHECK(run(method, 1, expected) == ET_OK);
  et_method_free(method);
  allocator.context = &counts;
  options.allocator = &allocator;
  method = load(kLinear, &options);
  CHECK(run(method, 1, result) == ET_OK && memcmp(expected, result, 24) == 0);
  CHECK(counts.live > 0);
  et_method_free(method);
  CHECK(counts.live == 0);
  requests = counts.requests;
  CHECK(requests > 0);
  CHECK(et_program_load_file(kLinear, &options, &program) == ET_OK);
  for (n = 1; n <= requests; ++n) {
    et_status status;
    counts.requests = 0;
    counts.fails_at = n;
    status = et_method_load(program, "forward", &method);
    status = status != ET_OK ? status : run(method, 1, result);
    CHECK(status == ET_OUT_OF_MEMORY || status == ET_OK);
    CHECK(status == ET_OK || et_last_error()[0] != '\0');
    counts.fails_at = 0;
    if (method != NULL) {
      CHECK(run(method, 1, result) == ET_OK && memcmp(expected, result, 24) == 0);
    }
    et_method_free(method);
    CHECK(counts.live == 0);
  }
  et_program_free(program);
  allocator.release = NULL;
  FAILS(et_program_load_file(kLinear, &options, &program), ET_INVALID_ARGUMENT, "release is null");
}

/* That weights are kept tests/python/runtime/test_pack_cache.py says; this model packs none. */
static void test_packed_weights(void) {
  char directory[64]; /* in the working directory */
  static unsigned char bytes[1 << 16];
  et_options options = ET_OPTIONS_INIT;
  et_program* program = NULL;
  et_method* method = load(kLinear, NULL);
  float expected[6], result[6];
  size_t nbytes;
  int from_memory;
  FILE* file = fopen(kLinear, "rb");
  snprintf(directory, sizeof(directory), "c_api_test_%ld", (long)getpid());
  CHECK(file != NULL && mkdir(directory, 0700) == 0);
  nbytes = fread(bytes, 1, sizeof(bytes), file);
  fclose(file);
  CHECK(run(method, 1, expected) == ET_OK);
  et_method_free(method);
  for (from_memory = 0; from_memory < 2; ++from_memory) {
    CHECK((from_memory ? et_program_load_memory_packed(bytes, nbytes, NULL, directory, &program)
                       : et_program_load_file_packed(kLinear, NULL, directory, &program)) == ET_OK);
    CHECK(et_method_load(program, "forward", &method) == ET_OK);
    CHECK(run(method, 1, result) == ET_OK && memcmp(expected, result, 24) == 0);
    et_method_free(method);
    et_program_free(program);
  }
  CHECK(rmdir(directory) == 0);
  FAILS(et_program_load_file_packed(kLinear, NULL, directory, &program), ET_INVALID_ARGUMENT, "no directory");
  CHECK(program == NULL);
  FAILS(et_program_load_file_packed(kLinear, NULL, NULL, &program), ET_INVALID_ARGUMENT, "null");
  FAILS(et_program_load_file_packed(kLinear, NULL, "", &program), ET_INVALID_ARGUMENT, "empty");
  FAILS(et_program_load_file_packed(NULL, NULL, ".", &program), ET_INVALID_ARGUMENT, "null");
  options.read_file = 1;
  FAILS(et_program_load_file_packed(kLinear, &options, ".", &program), ET_INVALID_ARGUMENT, "mapped");
}

static void test_state(void) {
  et_method* const method = load(kCounter, NULL);
  et_tensor_info info;
  static float x[64];
  et_tensor in, out;
  int64_t sizes[8];
  float first, second, third;
  int d;
  CHECK(et_method_input_info(method, 0, &info) == ET_OK && info.dtype == ET_FLOAT && info.nbytes <= sizeof(x));
  for (d = 0; d < 64; ++d) {
    x[d] = 1;
  }
  for (d = 0; d < info.rank; ++d) {
    sizes[d] = info.sizes[d];
  }
  in.dtype = info.dtype, in.rank = info.rank, in.sizes = sizes, in.data = x, in.nbytes = info.nbytes;
#define ONCE(result)                                                                         \
  CHECK(et_method_set_input(method, 0, &in) == ET_OK && et_method_execute(method) == ET_OK); \
  CHECK(et_method_get_output(method, 0, &out) == ET_OK);                                     \
  result = ((const float*)out.data)[0]
  ONCE(first);
  ONCE(second);
  CHECK(et_method_reset_state(method) == ET_OK);
  ONCE(third);
  CHECK(first != second && first == third);
  et_method_free(method);
}

static void* run_often(void* opaque) {
  et_program* const program = opaque;
  et_method* method = NULL;
  float first[6], result[6];
  int i;
  if (et_method_load(program, "forward", &method) != ET_OK || run(method, 1, first) != ET_OK) {
    return "load";
  }
  for (i = 0; i < 50; ++i) {
    if (run(method, 1, result) != ET_OK || memcmp(first, result, 24) != 0) {
      return "run";
    }
    if (et_method_set_input_int(method, 0, i) != ET_INVALID_TYPE || et_last_error()[0] == '\0') {
      return "error";
    }
  }
  et_method_free(method);
  return NULL;
}

static void test_threads(void) {
  pthread_t threads[16];
  et_program* program = NULL;
  void* wrong;
  int i;
  FAILS(et_set_num_threads((size_t)-1), ET_INVALID_ARGUMENT, "threads");
  CHECK(et_set_num_threads(2) == ET_OK);
  CHECK(et_program_load_file(kLinear, NULL, &program) == ET_OK);
  for (i = 0; i < 16; ++i) {
    CHECK(pthread_create(&threads[i], NULL, run_often, program) == 0);
  }
  for (i = 0; i < 16; ++i) {
    CHECK(pthread_join(threads[i], &wrong) == 0 && wrong == NULL);
  }
  et_program_free(program);
}

int main(void) {
  test_versions();
  test_metadata();
  test_wrong_calls();
  test_files();
  test_allocator();
  test_packed_weights();
  test_state();
  test_threads();
  printf("%d checks failed\n", num_failed);
  return num_failed == 0 ? 0 : 1;
}
