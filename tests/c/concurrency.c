#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 50, CHILDREN = 4 };

typedef struct {
  rl_limiter *limiter;
  const char *key;
  pthread_barrier_t *start;
  rl_status status;
  rl_decision decision;
} caller;

static void *call_once(void *argument) {
  caller *caller = argument;
  pthread_barrier_wait(caller->start);
  caller->status = allow(caller->limiter, caller->key, 1, &caller->decision);
  return NULL;
}

/* Fifty threads at once on a key with five tokens. */
static void race(rl_limiter *limiter, const char *key) {
  pthread_barrier_t start;
  pthread_t threads[THREADS];
  caller callers[THREADS];
  CHECK(pthread_barrier_init(&start, NULL, THREADS) == 0);
  for (int i = 0; i < THREADS; i++) {
    callers[i] = (caller){.limiter = limiter, .key = key, .start = &start};
    CHECK(pthread_create(&threads[i], NULL, call_once, &callers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  pthread_barrier_destroy(&start);
  int passed = 0, seen[5] = {0};
  for (int i = 0; i < THREADS; i++) {
    CHECK_EQUAL(callers[i].status, RL_OK);
    if (callers[i].decision.allowed) {
      passed++;
      CHECK(callers[i].decision.remaining < 5);
      seen[callers[i].decision.remaining]++;
    }
  }
  CHECK_EQUAL(passed, 5);
  for (int remaining = 0; remaining < 5; remaining++) {
    CHECK_EQUAL(seen[remaining], 1);
  }
}

static void races_on(const char *dsn) {
  for (size_t i = 0; i < ALGORITHMS; i++) {
    rl_limiter *limiter = limiter_by(dsn, 1, &five_of[i], NULL);
    for (int round = 0; round < (check_quick() ? 1 : 20); round++) {
      char key[32];
      snprintf(key, sizeof key, "race %d", round);
      race(limiter, key);
    }
    rl_limiter_free(limiter);
  }
  /* All of them at once are charged all or none, too. */
  rl_limiter *several = limiter_by(dsn, ALGORITHMS, five_of, NULL);
  race(several, "race for all");
  rl_limiter_free(several);
}

static void of_fifty_threads_in_memory_exactly_five_pass(void) { races_on("memory:?max_keys=300"); }

static void of_fifty_threads_on_redis_exactly_five_pass(void) {
  server redis = server_start();
  races_on(dsn_of(&redis));
  server_end(&redis);
}

/* Calls `calls` times on a key of its own and says whether the sequence was unbroken. */
static bool counts_down(rl_limiter *limiter, const char *key, uint64_t from, uint64_t calls) {
  for (uint64_t i = 0; i < calls; i++) {
    rl_decision decision;
    if (allow(limiter, key, 1, &decision) != RL_OK || !decision.allowed || decision.remaining != from - i) {
      return false;
    }
  }
  return true;
}

static void after_fork_children_and_parent_go_on_undisturbed(void) {
  const uint64_t calls = check_quick() ? 25 : 250;
  server redis = server_start();
  rl_limiter *limiter = limiter_on(dsn_of(&redis), 1000, 1, 3600, NULL);
  CHECK(counts_down(limiter, "parent", 999, 1));
  long before = server_connections(&redis);

  pid_t children[CHILDREN];
  for (int i = 0; i < CHILDREN; i++) {
    children[i] = fork();
    if (children[i] == 0) {
      char key[32];
      snprintf(key, sizeof key, "child %d", i);
      bool unbroken = counts_down(limiter, key, 999, calls);
      rl_limiter_free(limiter);
      _exit(unbroken ? 0 : 1);
    }
    CHECK(children[i] > 0);
  }
  bool parent_unbroken = counts_down(limiter, "parent", 998, calls);
  for (int i = 0; i < CHILDREN; i++) {
    int status;
    CHECK(waitpid(children[i], &status, 0) == children[i]);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  CHECK(parent_unbroken);
  CHECK(counts_down(limiter, "parent", 998 - calls, 10));
  /* One new connection for each child, none for the parent; the last is the question itself. */
  CHECK_EQUAL(server_connections(&redis) - before, CHILDREN + 1);
  rl_limiter_free(limiter);
  server_end(&redis);
}

static void a_child_takes_its_own_copy_of_a_memory_store(void) {
  rl_limiter *limiter = limiter_on("memory:?max_keys=301", 1000, 1, 3600, NULL);
  CHECK(counts_down(limiter, "copied", 999, 10));
  pid_t child = fork();
  if (child == 0) {
    _exit(counts_down(limiter, "copied", 989, 10) ? 0 : 1);
  }
  CHECK(child > 0);
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(counts_down(limiter, "copied", 989, 10));
  rl_limiter_free(limiter);
}

static atomic_bool enough;

static void *keep_calling(void *limiter) {
  rl_decision decision;
  while (!atomic_load(&enough)) {
    allow(limiter, "busy", 1, &decision);
  }
  return NULL;
}

/* A fork may come while another thread is in the middle of a decision. */
static void fork_while_threads_call(rl_limiter *limiter) {
  pthread_t threads[4];
  atomic_store(&enough, false);
  for (int i = 0; i < 4; i++) {
    CHECK(pthread_create(&threads[i], NULL, keep_calling, limiter) == 0);
  }
  bool stuck = false;
  for (int i = 0; i < (check_quick() ? 3 : 100) && !stuck; i++) {
    pid_t child = fork();
    if (child == 0) {
      rl_decision decision;
      alarm(30);
      if (allow(limiter, "busy", 1, &decision) == RL_OK) {
        /* Ends without Valgrind's last look, to which all that the other threads had would seem lost. */
        raise(SIGKILL);
      }
      _exit(1);
    }
    int status = 0;
    stuck = child < 0 || waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL;
  }
  atomic_store(&enough, true);
  for (int i = 0; i < 4; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  CHECK(!stuck);
  rl_limiter_free(limiter);
}

static void a_child_is_not_stuck_with_what_a_thread_of_its_parent_held(void) {
  fork_while_threads_call(limiter_on("memory:?max_keys=302", 5, 1, 3600, NULL));
}

static void a_child_is_not_stuck_where_memory_stands_in_for_a_server(void) {
  rl_limiter_options options = {.struct_size = sizeof options, .on_error = RL_ON_ERROR_LOCAL};
  /* Nobody listens there. */
  fork_while_threads_call(limiter_on("redis://127.0.0.1:1", 5, 1, 3600, &options));
}

void concurrency(void) {
  TEST(of_fifty_threads_in_memory_exactly_five_pass);
  TEST(of_fifty_threads_on_redis_exactly_five_pass);
  TEST(after_fork_children_and_parent_go_on_undisturbed);
  TEST(a_child_takes_its_own_copy_of_a_memory_store);
  TEST(a_child_is_not_stuck_with_what_a_thread_of_its_parent_held);
  TEST(a_child_is_not_stuck_where_memory_stands_in_for_a_server);
}
