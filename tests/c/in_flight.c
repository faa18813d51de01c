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

/* Long enough for any test. */
static const double LONG_S = 600;

enum { LIMIT = 3, THREADS = 8 };

static rl_concurrency *limit_on(const char *dsn, int64_t limit, double lease_ttl_s, const char *name) {
  rl_store *store = NULL;
  rl_concurrency *concurrency = NULL;
  CHECK_EQUAL(rl_store_open(dsn, &store), RL_OK);
  CHECK_EQUAL(rl_concurrency_new(limit, lease_ttl_s, store, name, &concurrency), RL_OK);
  rl_store_free(store);
  return concurrency;
}

static bool acquire(rl_concurrency *concurrency, uint64_t max_wait_us, char lease[RL_HOLDER_LEN]) {
  bool acquired = false;
  CHECK_EQUAL(rl_concurrency_acquire(concurrency, (const uint8_t *)"k", 1, max_wait_us, lease, &acquired), RL_OK);
  CHECK_EQUAL(strlen(lease), acquired ? RL_HOLDER_LEN - 1 : 0);
  return acquired;
}

static bool extend(rl_concurrency *concurrency, const char *lease) {
  bool extended = false;
  CHECK_EQUAL(rl_concurrency_extend(concurrency, (const uint8_t *)"k", 1, lease, &extended), RL_OK);
  return extended;
}

static bool release(rl_concurrency *concurrency, const char *lease) {
  bool released = false;
  CHECK_EQUAL(rl_concurrency_release(concurrency, (const uint8_t *)"k", 1, lease, &released), RL_OK);
  return released;
}

static rl_decision peeked(rl_concurrency *concurrency) {
  rl_decision decision;
  CHECK_EQUAL(rl_concurrency_peek(concurrency, (const uint8_t *)"k", 1, &decision), RL_OK);
  CHECK_EQUAL(decision.allowed, decision.remaining > 0);
  CHECK_EQUAL(decision.allowed, decision.retry_after_us == 0);
  return decision;
}

static void on_each_store(void (*test)(const char *dsn, bool of_many_processes)) {
  server redis = server_start();
  char shared[128], file[128];
  snprintf(shared, sizeof shared, "shared:%s/limits?timeout=5", redis.folder);
  snprintf(file, sizeof file, "%s/limits", redis.folder);
  test("memory:?max_keys=520", false);
  test(shared, true);
  test(dsn_of(&redis), true);
  unlink(file);
  server_end(&redis);
}

static void is_kept(const char *dsn, bool of_many_processes) {
  (void)of_many_processes;
  rl_concurrency *concurrency = limit_on(dsn, 2, LONG_S, NULL);
  rl_concurrency *other_name = limit_on(dsn, 2, LONG_S, "uploads");
  char first[RL_HOLDER_LEN], second[RL_HOLDER_LEN], third[RL_HOLDER_LEN];
  CHECK_EQUAL(peeked(concurrency).remaining, 2);
  CHECK(acquire(concurrency, 0, first) && acquire(concurrency, 0, second));
  CHECK(!acquire(concurrency, 0, third));
  CHECK(!acquire(concurrency, 20000, third));
  CHECK(peeked(concurrency).retry_after_us > 0 && peeked(concurrency).limit == 2);
  CHECK_EQUAL(peeked(other_name).remaining, 2);
  CHECK(extend(concurrency, first) && !extend(concurrency, "nobody"));
  CHECK(release(concurrency, first) && !release(concurrency, first) && !extend(concurrency, first));
  CHECK_EQUAL(peeked(concurrency).remaining, 1);
  CHECK(release(concurrency, second));
  rl_concurrency_free(concurrency);
  rl_concurrency_free(other_name);
}

static void as_many_as_the_limit_are_under_way(void) { on_each_store(is_kept); }

typedef struct {
  rl_concurrency *concurrency;
  atomic_int *inside, *most;
  bool good;
} worker;

static void *work(void *argument) {
  worker *worker = argument;
  worker->good = true;
  for (int i = 0; worker->good && i < (check_quick() ? 3 : 30); i++) {
    char lease[RL_HOLDER_LEN];
    bool done = false;
    worker->good = rl_concurrency_acquire(worker->concurrency, (const uint8_t *)"k", 1, RL_NEVER, lease, &done) == RL_OK && done;
    int inside = atomic_fetch_add(worker->inside, 1) + 1;
    int most = atomic_load(worker->most);
    while (inside > most && !atomic_compare_exchange_weak(worker->most, &most, inside)) {
    }
    usleep(200);
    atomic_fetch_sub(worker->inside, 1);
    worker->good &= rl_concurrency_release(worker->concurrency, (const uint8_t *)"k", 1, lease, &done) == RL_OK && done;
  }
  return NULL;
}

static void threads_keep_it(const char *dsn, bool of_many_processes) {
  (void)of_many_processes;
  rl_concurrency *concurrency = limit_on(dsn, LIMIT, LONG_S, "threads");
  atomic_int inside = 0, most = 0;
  pthread_t threads[THREADS];
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.concurrency = concurrency, .inside = &inside, .most = &most};
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(workers[i].good);
  }
  CHECK(atomic_load(&most) <= LIMIT);
  CHECK_EQUAL(peeked(concurrency).remaining, LIMIT);
  rl_concurrency_free(concurrency);
}

static void of_many_threads_never_more_than_the_limit_are_inside(void) { on_each_store(threads_keep_it); }

static void killed_while_it_holds(const char *dsn, bool of_many_processes) {
  if (!of_many_processes) {
    return;
  }
  rl_concurrency *concurrency = limit_on(dsn, 1, 0.5, "killed");
  pid_t child = fork();
  if (child == 0) {
    char lease[RL_HOLDER_LEN];
    bool acquired = false;
    rl_concurrency_acquire(concurrency, (const uint8_t *)"k", 1, 0, lease, &acquired);
    if (acquired) {
      raise(SIGKILL);
    }
    _exit(1);
  }
  CHECK(child > 0);
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  char lease[RL_HOLDER_LEN];
  CHECK(acquire(concurrency, RL_NEVER, lease));
  CHECK(release(concurrency, lease));
  rl_concurrency_free(concurrency);
}

static void who_is_killed_holds_a_lease_no_longer_than_its_time(void) { on_each_store(killed_while_it_holds); }

static void wrong_arguments_of_a_concurrency_limit_are_named_and_change_nothing(void) {
  rl_store *store = NULL;
  CHECK_EQUAL(rl_store_open("memory:?max_keys=521", &store), RL_OK);
  rl_concurrency *none = NULL;
  CHECK_EQUAL(rl_concurrency_new(0, 1, store, NULL, &none), RL_ERR_INVALID_POLICY);
  CHECK_BEGINS(rl_last_error(), "limit must be between 1 and 2147483647, got 0");
  CHECK_EQUAL(rl_concurrency_new(1, 0, store, NULL, &none), RL_ERR_INVALID_POLICY);
  CHECK_BEGINS(rl_last_error(), "lease_ttl must be between 0.001 and ");
  CHECK_EQUAL(rl_concurrency_new(1, 1, store, "", &none), RL_ERR_INVALID_POLICY);
  CHECK_BEGINS(rl_last_error(), "name must be 1 to 100 printable ASCII characters");
  CHECK_EQUAL(rl_concurrency_new(1, 1, NULL, NULL, &none), RL_ERR_INVALID_ARGUMENT);
  CHECK_EQUAL(rl_concurrency_new(1, 1, store, NULL, NULL), RL_ERR_INVALID_ARGUMENT);
  CHECK(none == NULL);
  rl_concurrency *concurrency = limit_on("memory:?max_keys=521", 1, 1, NULL);
  const uint8_t *key = (const uint8_t *)"k";
  char lease[RL_HOLDER_LEN] = "untouched";
  bool done = true;
  CHECK_EQUAL(rl_concurrency_acquire(NULL, key, 1, 0, lease, &done), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "concurrency must not be NULL");
  CHECK_EQUAL(rl_concurrency_acquire(concurrency, key, 1, 0, NULL, &done), RL_ERR_INVALID_ARGUMENT);
  CHECK_EQUAL(rl_concurrency_acquire(concurrency, key, 1, 0, lease, NULL), RL_ERR_INVALID_ARGUMENT);
  CHECK_EQUAL(rl_concurrency_extend(concurrency, key, 1, NULL, &done), RL_ERR_INVALID_ARGUMENT);
  CHECK_EQUAL(rl_concurrency_release(concurrency, key, 1, "x", NULL), RL_ERR_INVALID_ARGUMENT);
  CHECK_EQUAL(rl_concurrency_peek(concurrency, key, 1, NULL), RL_ERR_INVALID_ARGUMENT);
  CHECK(strcmp(lease, "untouched") == 0 && done);
  CHECK_EQUAL(peeked(concurrency).remaining, 1);
  rl_concurrency_free(concurrency);
  rl_concurrency_free(NULL);
  rl_store_free(store);
}

void in_flight(void) {
  TEST(as_many_as_the_limit_are_under_way);
  TEST(of_many_threads_never_more_than_the_limit_are_inside);
  TEST(who_is_killed_holds_a_lease_no_longer_than_its_time);
  TEST(wrong_arguments_of_a_concurrency_limit_are_named_and_change_nothing);
}
