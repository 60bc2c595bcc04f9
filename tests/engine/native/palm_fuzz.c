/* Opens, makes ready and runs damaged files: palm_fuzz SECONDS SEED FOLDER|FILE... Files are of golden.py.
 *
 * A crash, a call of more than a minute or an error without a text ends it; build it with
 * sanitizers. The file is in last.palm, of the folder that it runs in, before it is tried.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "damage.h"
#include "golden.h"

enum { HANG_S = 60 };

static int is_over(void *user) { return time(NULL) < *(const time_t *)user; }

static void keep(const bytes *file) {
  FILE *to = fopen("last.palm", "wb");
  CHECK(to && fwrite(file->data, 1, file->size, to) == file->size && !fclose(to));
}

/* Buffers of a program that are not too large to try; 0 if they are. */
static int are_small(const palm_program *program) {
  const size_t most = (size_t)1 << 26;
  size_t i;
  for (i = 0; i < palm_program_input_count(program); ++i)
    if (palm_value_size(palm_program_input(program, i)) > most) return 0;
  for (i = 0; i < palm_program_output_count(program); ++i)
    if (palm_value_size(palm_program_output(program, i)) > most) return 0;
  return 1;
}

/* What came of the program, in words. */
static const char *run_plan(const palm_model *model, size_t plan, uint64_t *random) {
  palm_options options = PALM_OPTIONS;
  palm_program *program;
  palm_session *session = NULL;
  const char *result = "too large";
  options.threads = 1 + (int)(next_random(random) % 2);
  options.isa = palm_isa_name(next_random(random) % palm_isa_count());
  if (palm_program_create(model, plan, &options, &program)) return "no program";
  if (are_small(program)) {
    buffers made = buffers_of(program);
    const time_t end = time(NULL) + 2;
    result = "no session";
    if (!palm_session_create(program, options.threads, &session)) {
      WORKS(palm_session_watch(session, is_over, (void *)&end));
      result = palm_run(session, made.inputs, made.input_count, made.outputs, made.output_count)
                   ? "no run"
                   : "ran";
    }
    free_buffers(&made);
  }
  palm_session_free(session);
  palm_program_free(program);
  return result;
}

static const char *try_file(const bytes *file, uint64_t *random) {
  palm_model *model;
  const char *result;
  const uint32_t flags = next_random(random) & 1 ? PALM_BORROW : PALM_COPY;
  if (palm_open_bytes(file->data, file->size, flags, &model)) {
    CHECK(*palm_error() && !model);
    return "not opened";
  }
  result = run_plan(model, next_random(random) % palm_model_plan_count(model), random);
  palm_model_free(model);
  return result;
}

int main(int count, char **arguments) {
  static const char *const results[] = {"not opened", "no program", "too large",
                                        "no session", "no run",     "ran"};
  size_t counts[6] = {0}, r;
  uint64_t random;
  time_t end;
  if (count < 4) {
    fprintf(stderr, "palm_fuzz SECONDS SEED FOLDER...\n");
    return 2;
  }
  end = time(NULL) + atol(arguments[1]);
  random = strtoull(arguments[2], NULL, 10);
  while (time(NULL) < end) {
    const char *folder = arguments[3 + next_random(&random) % (uint64_t)(count - 3)];
    bytes whole = read_file(folder, "model.palm"), file;
    const char *result;
    whole.size = damage(whole.data, whole.size, &random);
    /* In memory of its own size, so that a sanitizer sees what reads beyond. */
    file = bytes_of(whole.size);
    memcpy(file.data, whole.data, file.size);
    free(whole.data);
    keep(&file);
    alarm(HANG_S);
    result = try_file(&file, &random);
    alarm(0);
    for (r = 0; r < 6; ++r) counts[r] += !strcmp(result, results[r]);
    free(file.data);
  }
  for (r = 0; r < 6; ++r) printf("%s %zu%s", results[r], counts[r], r < 5 ? ", " : "\n");
  return 0;
}
