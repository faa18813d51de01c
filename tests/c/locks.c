#include "tests.h"

#include "support/check.h"
#include "support/limiter.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Long enough for any test. */
static const double LONG_S = 600;

static bool acquire(rl_lock *lock, const char *key, double ttl_s, uint64_t max_wait_us, char holder[RL_HOLDER_LEN]) {
  bool acquired = false;
  CHECK_EQUAL(rl_lock_acquire(lock, (const uint8_t *)key, strlen(key), ttl_s, max_wait_us, holder, &acquired), RL_OK);
  CHECK_EQUAL(strlen(holder), acquired ? RL_HOLDER_LEN - 1 : 0);
  return acquired;
}

static bool extend(rl_lock *lock, const char *key, const char *holder) {
  bool extended = false;
  CHECK_EQUAL(rl_lock_extend(lock, (const uint8_t *)key, strlen(key), holder, LONG_S, &extended), RL_OK);
  return extended;
}

static bool release(rl_lock *lock, const char *key, const char *holder) {
  bool released = false;
  CHECK_EQUAL(rl_lock_release(lock, (const uint8_t *)key, strlen(key), holder, &released), RL_OK);
  return released;
}

static bool is_held(rl_lock *lock, const char *key) {
  bool held = false;
  CHECK_EQUAL(rl_lock_is_held(lock, (const uint8_t *)key, strlen(key), &held), RL_OK);
  return held;
}

static rl_lock *lock_on(const char *dsn) {
  rl_store *store = NULL;
  rl_lock *lock = NULL;
  CHECK_EQUAL(rl_store_open(dsn, &store), RL_OK);
  CHECK_EQUAL(rl_lock_new(store, &lock), RL_OK);
  rl_store_free(store);
  return lock;
}

/* The store's DSN, and a folder for files of the test. */
typedef void (*store_test)(const char *dsn, const char *folder);

static void on_the_stores_of_many_processes(store_test test) {
  server redis = server_start();
  char shared[128];
  snprintf(shared, sizeof shared, "shared:%s/limits?timeout=5", redis.folder);
  test(shared, redis.folder);
  test(dsn_of(&redis), redis.folder);
  char file[128];
  snprintf(file, sizeof file, "%s/limits", redis.folder);
  unlink(file);
  server_end(&redis);
}

static void on_each_store(store_test test) {
  test("memory:?max_keys=510", "/tmp");
  on_the_stores_of_many_processes(test);
}

static void is_held_by_one(const char *dsn, const char *folder) {
  (void)folder;
  rl_lock *lock = lock_on(dsn);
  char holder[RL_HOLDER_LEN], other[RL_HOLDER_LEN];
  CHECK(!is_held(lock, "report"));
  CHECK(acquire(lock, "report", LONG_S, 0, holder));
  CHECK(!acquire(lock, "report", LONG_S, 0, other));
  CHECK(!acquire(lock, "report", LONG_S, 20000, other));
  CHECK(acquire(lock, "another", LONG_S, 0, other));
  CHECK(is_held(lock, "report"));
  CHECK(!extend(lock, "report", other));
  CHECK(!release(lock, "report", other));
  CHECK(!release(lock, "report", "nobody"));
  CHECK(extend(lock, "report", holder));
  CHECK(release(lock, "report", holder));
  CHECK(!release(lock, "report", holder));
  CHECK(!is_held(lock, "report"));
  CHECK(release(lock, "another", other));
  rl_lock_free(lock);
}

static void one_holds_a_lock_and_only_the_holder_releases_it(void) { on_each_store(is_held_by_one); }

static void ends_by_itself(const char *dsn, const char *folder) {
  (void)folder;
  rl_lock *lock = lock_on(dsn);
  char holder[RL_HOLDER_LEN], next[RL_HOLDER_LEN];
  CHECK(acquire(lock, "short", 0.02, 0, holder));
  CHECK(acquire(lock, "short", LONG_S, RL_NEVER, next));
  CHECK(!release(lock, "short", holder));
  CHECK(release(lock, "short", next));
  rl_lock_free(lock);
}

static void a_lock_ends_by_itself(void) { on_each_store(ends_by_itself); }

/* Adds one to the number in a file, in two steps that others could come between. */
static bool count_in(const char *path) {
  long number = 0;
  FILE *file = fopen(path, "r");
  bool good = file != NULL && fscanf(file, "%ld", &number) == 1 && fclose(file) == 0;
  file = good ? fopen(path, "w") : NULL;
  return file != NULL && fprintf(file, "%ld", number + 1) > 0 && fclose(file) == 0;
}

static void write_zero(const char *path) {
  FILE *file = fopen(path, "w");
  CHECK(file != NULL && fputs("0", file) >= 0 && fclose(file) == 0);
}

static long counted_in(const char *path) {
  long number = -1;
  FILE *file = fopen(path, "r");
  CHECK(file != NULL && fscanf(file, "%ld", &number) == 1 && fclose(file) == 0);
  unlink(path);
  return number;
}

/* Counts under the lock, without CHECK: it may run in a thread or a child. */
static bool count_under(rl_lock *lock, const char *path, int times) {
  for (int i = 0; i < times; i++) {
    char holder[RL_HOLDER_LEN];
    bool done = false;
    if (rl_lock_acquire(lock, (const uint8_t *)"file", 4, LONG_S, RL_NEVER, holder, &done) != RL_OK || !done ||
        !count_in(path) || rl_lock_release(lock, (const uint8_t *)"file", 4, holder, &done) != RL_OK || !done) {
      return false;
    }
  }
  return true;
}

typedef struct {
  rl_lock *lock;
  const char *path;
  int times;
  bool good;
} worker;

static void *work(void *argument) {
  worker *worker = argument;
  worker->good = count_under(worker->lock, worker->path, worker->times);
  return NULL;
}

enum { WORKERS = 4 };

static void threads_count(const char *dsn, const char *folder) {
  const int times = check_quick() ? 5 : 100;
  char path[128];
  snprintf(path, sizeof path, "%s/rl-count-%d", folder, (int)getpid());
  write_zero(path);
  rl_lock *lock = lock_on(dsn);
  pthread_t threads[WORKERS];
  worker workers[WORKERS];
  for (int i = 0; i < WORKERS; i++) {
    workers[i] = (worker){.lock = lock, .path = path, .times = times};
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  for (int i = 0; i < WORKERS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(workers[i].good);
  }
  CHECK_EQUAL(counted_in(path), WORKERS * times);
  rl_lock_free(lock);
}

static void threads_that_count_under_a_lock_count_right(void) { on_each_store(threads_count); }

static void children_count(const char *dsn, const char *folder) {
  const int times = check_quick() ? 5 : 100;
  char path[128];
  snprintf(path, sizeof path, "%s/rl-count-%d", folder, (int)getpid());
  write_zero(path);
  rl_lock *lock = lock_on(dsn);
  CHECK(count_under(lock, path, 1));
  pid_t children[WORKERS];
  for (int i = 0; i < WORKERS; i++) {
    children[i] = fork();
    if (children[i] == 0) {
      bool good = count_under(lock, path, times);
      rl_lock_free(lock);
      _exit(good ? 0 : 1);
    }
    CHECK(children[i] > 0);
  }
  for (int i = 0; i < WORKERS; i++) {
    int status;
    CHECK(waitpid(children[i], &status, 0) == children[i]);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  CHECK_EQUAL(counted_in(path), 1 + WORKERS * times);
  rl_lock_free(lock);
}

static void children_that_count_under_a_lock_count_right(void) { on_the_stores_of_many_processes(children_count); }

static void killed_while_it_holds(const char *dsn, const char *folder) {
  (void)folder;
  rl_lock *lock = lock_on(dsn);
  pid_t child = fork();
  if (child == 0) {
    char holder[RL_HOLDER_LEN];
    bool acquired = false;
    rl_lock_acquire(lock, (const uint8_t *)"killed", 6, 0.5, 0, holder, &acquired);
    if (acquired) {
      raise(SIGKILL);
    }
    _exit(1);
  }
  CHECK(child > 0);
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  char holder[RL_HOLDER_LEN];
  CHECK(acquire(lock, "killed", LONG_S, RL_NEVER, holder));
  CHECK(release(lock, "killed", holder));
  rl_lock_free(lock);
}

static void who_is_killed_holds_a_lock_no_longer_than_its_time(void) {
  on_the_stores_of_many_processes(killed_while_it_holds);
}

static void wrong_arguments_of_a_lock_are_named_and_change_nothing(void) {
  rl_lock *lock = lock_on("memory:?max_keys=511");
  rl_store *store = NULL;
  CHECK_EQUAL(rl_store_open("memory:?max_keys=511", &store), RL_OK);
  char holder[RL_HOLDER_LEN] = "untouched";
  bool done = true;
  const uint8_t *key = (const uint8_t *)"k";
  static const double none[] = {0, -1, 0.0009, 1e300};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    CHECK_EQUAL(rl_lock_acquire(lock, key, 1, none[i], 0, holder, &done), RL_ERR_INVALID_ARGUMENT);
    CHECK_BEGINS(rl_last_error(), "ttl must be between 0.001 and ");
    CHECK_EQUAL(rl_lock_extend(lock, key, 1, "x", none[i], &done), RL_ERR_INVALID_ARGUMENT);
  }
  rl_lock *made = lock;
  CHECK_EQUAL(rl_lock_new(NULL, &made), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "store must not be NULL");
  CHECK_EQUAL(rl_lock_new(store, NULL), RL_ERR_INVALID_ARGUMENT);
  CHECK_EQUAL(rl_lock_acquire(NULL, key, 1, 1, 0, holder, &done), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "lock must not be NULL");
  CHECK_EQUAL(rl_lock_acquire(lock, NULL, 1, 1, 0, holder, &done), RL_ERR_INVALID_ARGUMENT);
  CHECK_EQUAL(rl_lock_acquire(lock, key, 1, 1, 0, NULL, &done), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "holder must not be NULL");
  CHECK_EQUAL(rl_lock_acquire(lock, key, 1, 1, 0, holder, NULL), RL_ERR_INVALID_ARGUMENT);
  CHECK_BEGINS(rl_last_error(), "acquired must not be NULL");
  CHECK_EQUAL(rl_lock_release(lock, key, 1, NULL, &done), RL_ERR_INVALID_ARGUMENT);
  CHECK_EQUAL(rl_lock_release(lock, key, 1, "x", NULL), RL_ERR_INVALID_ARGUMENT);
  CHECK_EQUAL(rl_lock_is_held(lock, key, 1, NULL), RL_ERR_INVALID_ARGUMENT);
  CHECK(strcmp(holder, "untouched") == 0 && done && made == lock);
  CHECK(!is_held(lock, "k"));
  rl_store_free(store);
  rl_lock_free(lock);
  rl_lock_free(NULL);
}

static void a_lock_on_a_store_that_is_away_is_an_error(void) {
  rl_lock *lock = lock_on(dsn_with_limit(1, 0.5));
  char holder[RL_HOLDER_LEN] = "untouched";
  bool acquired = true;
  CHECK_EQUAL(rl_lock_acquire(lock, (const uint8_t *)"k", 1, 1, 0, holder, &acquired), RL_ERR_STORE_UNAVAILABLE);
  CHECK(strcmp(holder, "untouched") == 0 && acquired);
  rl_lock_free(lock);
}

void locks(void) {
  TEST(one_holds_a_lock_and_only_the_holder_releases_it);
  TEST(a_lock_ends_by_itself);
  TEST(threads_that_count_under_a_lock_count_right);
  TEST(children_that_count_under_a_lock_count_right);
  TEST(who_is_killed_holds_a_lock_no_longer_than_its_time);
  TEST(wrong_arguments_of_a_lock_are_named_and_change_nothing);
  TEST(a_lock_on_a_store_that_is_away_is_an_error);
}
