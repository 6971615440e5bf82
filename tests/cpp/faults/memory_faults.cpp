// Runs a model while the n-th request for memory fails, for all n.
//
//     et_memory_faults [--trace N] [--profile | --train] MODEL.pte [DATA.ptd …]
//
// One scenario is what a Subject does: a Module from the load to its outputs, with --profile one whose tracer keeps all
// values, with --train training with optimizers and a checkpoint. When a request failed, the scenario either has the
// right outputs (what failed was not needed) or an error: MemoryAllocationFailed, and a message that says of what and
// how much. Nothing of it may stay behind, and the same scenario must succeed afterwards. Two kinds of process: one
// that has run nothing before (a child for each n), and one that has. In each, one request fails, or that and all later
// ones until the error.
//
// Prints a line for each n that goes wrong, and one with the counts at the end. Exit status: 0 when none went wrong.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "failing_memory.h"
#include "subject.h"
#include "threads/thread_pool.h"

namespace {

using namespace et;          // NOLINT
using namespace et::faults;  // NOLINT

/// What was logged; in memory of its own, since it is written while there is none.
struct Log {
  char text[4096];
  size_t length;
} the_log;

void keep(LogLevel level, const char*, int, const char* message, size_t length) {
  if (level >= LogLevel::kError && the_log.length + length + 2 < sizeof(the_log.text)) {
    std::memcpy(the_log.text + the_log.length, message, length);
    the_log.length += length;
    the_log.text[the_log.length++] = '\n';
    the_log.text[the_log.length] = '\0';
  }
}

/// A scenario with a fault, and what the same Subject gives when it is run from the beginning after an error.
struct FaultyOutcome : Outcome {
  Outcome retried;
};

constexpr uint64_t kNever = UINT64_MAX - 1;

std::unique_ptr<Subject> (*make_subject)(const Plan&) = &module_subject;

/// Request `n` fails, and all later ones with `for_good`. `*requests`: how many there were.
FaultyOutcome scenario(const Plan& plan, uint64_t n = kNever, bool for_good = false, uint64_t* requests = nullptr) {
  FaultyOutcome out;
  std::unique_ptr<Subject> subject = make_subject(plan);
  failing_memory::arm(n, for_good);
  out.error = subject->run(out);
  if (out.error != Error::Ok && std::strcmp(out.step, "load") != 0) {
    failing_memory::disarm();
    out.retried.step = "reset";
    out.retried.error = subject->reset();
    out.retried.error = out.retried.error == Error::Ok ? subject->run(out.retried) : out.retried.error;
  }
  subject.reset();
  const uint64_t count = failing_memory::disarm();
  if (requests != nullptr) {
    *requests = count;
  }
  return out;
}

struct Memory {
  int64_t blocks = failing_memory::live_blocks();
  int64_t mapped = failing_memory::mapped_nbytes();
};

/// What is right: outputs, what stays in memory after two scenarios, and how many requests a scenario makes.
struct Expected {
  Outputs outputs;
  Memory after;
  uint64_t cold_requests, warm_requests;
};

Expected expect(const Plan& plan) {
  Expected expected{};
  const Outcome out = scenario(plan, kNever, false, &expected.cold_requests);
  if (out.error != Error::Ok) {
    std::fprintf(stderr, "%s without a fault: %s at %s\n%s", plan.path.c_str(), to_string(out.error), out.step,
                 the_log.text);
    std::exit(2);
  }
  expected.outputs = scenario(plan, kNever, false, &expected.warm_requests).outputs;
  expected.after = Memory();
  return expected;
}

/// The scenario with a request that fails, then without. Writes what is wrong, a line.
void fault(const Plan& plan, uint64_t n, bool for_good, const Expected& expected, std::string* wrong) {
  the_log = {};
  const FaultyOutcome out = scenario(plan, n, for_good);
  const size_t nbytes = failing_memory::failed_nbytes();
  const Log said = the_log;
  the_log = {};
  const Outcome again = scenario(plan);
  const Memory after;
  const auto add = [&](const std::string& what) {
    *wrong += "request " + std::to_string(n) + (for_good ? " and later" : "") + " of " + std::to_string(nbytes) +
              " bytes, at " + out.step + ": " + what + "\n";
  };
  const bool says = std::strstr(said.text, "bytes") != nullptr || std::strstr(said.text, "small object") != nullptr;
  if (out.error == Error::Ok && !out.outputs.are(expected.outputs)) {
    add("other outputs without an error");
  } else if (out.error != Error::Ok && (out.error != Error::MemoryAllocationFailed || !says)) {
    add(std::string(to_string(out.error)) + ", '" + said.text + "'");
  }
  const bool is_retried = out.error != Error::Ok && std::strcmp(out.step, "load") != 0;
  if (is_retried && (out.retried.error != Error::Ok || !out.retried.outputs.are(expected.outputs))) {
    add(std::string("the same object afterwards: ") + to_string(out.retried.error) + " at " + out.retried.step + ", '" +
        said.text + "'");
  }
  if (again.error != Error::Ok || !again.outputs.are(expected.outputs)) {
    add(std::string("afterwards ") + to_string(again.error) + " at " + again.step + ", '" + the_log.text + "'");
  } else if (after.blocks > expected.after.blocks || after.mapped > expected.after.mapped) {
    add(std::to_string(after.blocks - expected.after.blocks) + " blocks and " +
        std::to_string(after.mapped - expected.after.mapped) + " mapped bytes stay");
  }
}

/// What a child and this process both see.
struct Shared {
  Expected expected;
  uint64_t next;  // the request that fails now
  size_t num_wrong;
};

/// Runs `body` in a child and passes on what it says. False when the child was ended.
template <typename Body>
bool in_child(const Body& body) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    body();
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Requests 1 … last fail, in children. Each begins anew when it is cold; one goes on while it lives when not.
void run_faults(const Plan& plan, Shared& shared, bool cold, bool for_good, uint64_t last) {
  for (shared.next = 1; shared.next <= last;) {
    const bool lived = in_child([&] {
      if (!cold) {
        expect(plan);
      }
      do {
        std::string wrong;
        fault(plan, shared.next, for_good, shared.expected, &wrong);
        std::printf("%s%s", wrong.empty() ? "" : cold ? "cold: " : "warm: ", wrong.c_str());
        shared.num_wrong += wrong.empty() ? 0 : 1;
      } while (++shared.next <= last && !cold);
    });
    if (!lived) {
      std::printf("%s: request %llu%s: the process ended\n", cold ? "cold" : "warm",
                  static_cast<unsigned long long>(shared.next), for_good ? " and later" : "");
      ++shared.next;
      ++shared.num_wrong;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  int first = 1;
  uint64_t traced = 0;
  if (argc > 3 && std::strcmp(argv[1], "--trace") == 0) {
    traced = std::strtoull(argv[2], nullptr, 10);
    failing_memory::set_trace(true);
    first = 3;
  }
  if (argc > first && std::strcmp(argv[first], "--profile") == 0) {
    make_subject = &traced_subject;
    ++first;
  } else if (argc > first && std::strcmp(argv[first], "--train") == 0) {
    make_subject = &training_subject;
    ++first;
  }
  if (argc <= first) {
    std::fprintf(stderr, "usage: et_memory_faults [--trace N] [--profile | --train] MODEL.pte [DATA.ptd ...]\n");
    return 2;
  }
  static char buffer[1 << 16];  // so that what is printed takes no block
  std::setvbuf(stdout, buffer, _IOLBF, sizeof(buffer));
  set_log_hook(&keep);
  threads::set_num_threads(2);
  const Plan plan = make_plan(argv[first], {argv + first + 1, argv + argc});
  auto& shared =
      *static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (!in_child([&] { shared.expected = expect(plan); })) {
    return 2;
  }
  if (traced != 0) {  // here, where a debugger is
    std::string wrong;
    fault(plan, traced, false, shared.expected, &wrong);
    std::printf("%s", wrong.c_str());
    return wrong.empty() ? 0 : 1;
  }
  uint64_t total = 0;
  for (const bool cold : {true, false}) {
    const uint64_t requests = cold ? shared.expected.cold_requests : shared.expected.warm_requests;
    for (const bool for_good : {false, true}) {
      run_faults(plan, shared, cold, for_good, requests);
      total += requests;
    }
  }
  std::printf("%llu requests failed, %zu went wrong\n", static_cast<unsigned long long>(total), shared.num_wrong);
  return shared.num_wrong == 0 ? 0 : 1;
}
