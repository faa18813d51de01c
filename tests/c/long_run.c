#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Memory may differ by this much between the first and the last tenth of a run. */
static const long SLACK = 3L << 20;

static long resident_bytes(void) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL);
  CHECK(fscanf(file, "%*d %ld", &pages) == 1);
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

static int open_descriptors(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  CHECK(folder != NULL);
  while (readdir(folder) != NULL) {
    count++;
  }
  closedir(folder);
  return count;
}

/* What goes wrong in between, and must leave nothing behind. */
static void fail_somehow(rl_limiter *limiter, int number) {
  rl_policy *policy = NULL;
  rl_store *store = NULL;
  rl_decision decision;
  switch (number % 4) {
  case 0:
    CHECK_EQUAL(allow(limiter, "key", 0, &decision), RL_ERR_INVALID_ARGUMENT);
    return;
  case 1:
    CHECK_EQUAL(rl_policy_token_bucket(1, NAN, 1, false, &policy), RL_ERR_INVALID_POLICY);
    return;
  case 2:
    CHECK_EQUAL(rl_store_open("redis://cache?nonsense=1", &store), RL_ERR_INVALID_STORE);
    return;
  default:
    CHECK_EQUAL(rl_allow(limiter, NULL, 1, 1, &decision), RL_ERR_INVALID_ARGUMENT);
    return;
  }
}

/* Every verb in turn, with all that a call can have. */
static void call_with_everything(rl_limiter *several, int number) {
  char client[32], token[32];
  snprintf(client, sizeof client, "client %d", number % 1000);
  int length = snprintf(token, sizeof token, "token %d", number % 3000);
  const rl_key keys[] = {key_of("everybody", ""), key_of("client", client)};
  rl_call call = {.struct_size = sizeof call, .verb = (rl_verb)(number % 6), .cost = 1 + number % 7};
  call.keys = keys;
  call.keys_len = 2;
  call.token = (const uint8_t *)token;
  call.token_len = (size_t)length;
  rl_decision decision, each[2];
  rl_status status = rl_decide(several, &call, &decision, each, 2);
  CHECK(status == RL_OK || (status == RL_ERR_WAIT_TOO_LONG && call.verb == RL_VERB_WAIT));
}

/* Twenty calls at once. */
static void call_many(rl_limiter *limiter, int number) {
  char keys[20][32];
  rl_batch_item items[20];
  rl_decision decisions[20];
  rl_status statuses[20];
  for (int i = 0; i < 20; i++) {
    int length = snprintf(keys[i], sizeof keys[i], "key %d", (number + i) % 1000);
    items[i] = (rl_batch_item){.key = (const uint8_t *)keys[i], .key_len = (size_t)length, .cost = 1 + i % 7};
  }
  CHECK_EQUAL(rl_allow_many(limiter, items, 20, decisions, statuses), RL_OK);
  CHECK(decisions[19].limit == 5 && decisions[19].remaining <= 5);
}

/* Calls on a thousand keys, every tenth a failure, every tenth with several policies and all else, every hundredth
 * with a limiter of its own, every two hundredth a batch. */
static void run(const char *dsn, int calls) {
  rl_limiter *limiter = limiter_on(dsn, 5, 1, 0.001, NULL);
  const named_policy policies[] = {{"client", "5 burst, 1/ms"}, {"everybody", "5000/s gcra"}};
  rl_limiter *several = limiter_by(dsn, 2, policies, NULL);
  long bytes = 0;
  int descriptors = 0;
  for (int i = 0; i < calls; i++) {
    char key[32];
    rl_decision decision;
    if (i % 10 == 0) {
      fail_somehow(limiter, i / 10);
    } else if (i % 100 == 1) {
      rl_limiter *another = limiter_on(dsn, 5, 1, 0.001, NULL);
      CHECK_EQUAL(allow(another, "key", 1, &decision), RL_OK);
      rl_limiter_free(another);
    } else if (i % 200 == 2) {
      call_many(limiter, i / 200);
    } else if (i % 10 == 5) {
      call_with_everything(several, i / 10);
    } else {
      snprintf(key, sizeof key, "key %d", i % 1000);
      CHECK_EQUAL(allow(limiter, key, 1 + i % 7, &decision), RL_OK);
      CHECK(decision.limit == 5 && decision.remaining <= 5);
    }
    if (i == calls / 10) {
      bytes = resident_bytes();
      descriptors = open_descriptors();
    }
  }
  CHECK_EQUAL(open_descriptors(), descriptors);
  /* Under Valgrind, which keeps what is freed for a while, it is Valgrind that looks for leaks. */
  CHECK(check_quick() || resident_bytes() - bytes < SLACK);
  rl_limiter_free(limiter);
  rl_limiter_free(several);
}

static void a_million_calls_in_memory_leave_it_flat(void) {
  run("memory:?max_keys=5000", check_quick() ? 3000 : 1000000);
}

/* A million where there is time for it: the variable LONG is set. */
static void many_calls_on_redis_leave_it_flat(void) {
  server redis = server_start();
  run(dsn_of(&redis), check_quick() ? 1000 : getenv("LONG") != NULL ? 1000000 : 100000);
  server_end(&redis);
}

void long_run(void) {
  TEST(a_million_calls_in_memory_leave_it_flat);
  TEST(many_calls_on_redis_leave_it_flat);
}
