/* One decision on Redis through ratelimit, and the same command through hiredis: formatted, sent, and the reply read.
 *
 *   decision PORT ratelimit|argv|format CALLS     does only that, to be counted by callgrind
 *   decision PORT latency ROUNDS                  microseconds per call, the three taking turns
 *
 * `argv` is hiredis' redisCommandArgv, which only frames the arguments; `format` its redisCommand, which reads a
 * format first. Both have the time limit that ratelimit has by default.
 */
#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <ratelimit.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PARTS = 32, BATCH = 200 };

static const char KEY[] = "user:42";

/* The command that ratelimit sends, taken apart. */
static struct {
  char bytes[4096];
  int count;
  const char *parts[MAX_PARTS];
  size_t lengths[MAX_PARTS];
} command;

static rl_limiter *limiter;
static redisContext *connection;

static void need(bool condition, const char *what) {
  if (!condition) {
    fprintf(stderr, "decision: %s\n", what);
    exit(EXIT_FAILURE);
  }
}

static rl_limiter *limiter_on(int port) {
  char dsn[64];
  rl_store *store;
  rl_policy *policy;
  rl_limiter *made;
  snprintf(dsn, sizeof dsn, "redis://127.0.0.1:%d", port);
  need(rl_store_open(dsn, &store) == RL_OK, rl_last_error());
  need(rl_policy_token_bucket(1000000000, 100, 1, false, &policy) == RL_OK, rl_last_error());
  need(rl_limiter_new((const rl_policy *const[]){policy}, 1, store, NULL, &made) == RL_OK, rl_last_error());
  return made;
}

static rl_status decide(rl_limiter *asked) {
  rl_decision decision;
  return rl_allow(asked, (const uint8_t *)KEY, sizeof KEY - 1, 1, &decision);
}

static void through_ratelimit(void) { need(decide(limiter) == RL_OK, rl_last_error()); }

/* The reply is five doubles. */
static void take(redisReply *reply) {
  need(reply != NULL && reply->type == REDIS_REPLY_STRING && reply->len == 5 * sizeof(double),
       reply == NULL ? connection->errstr : "the reply is no decision");
  freeReplyObject(reply);
}

static void through_argv(void) {
  take(redisCommandArgv(connection, command.count, command.parts, command.lengths));
}

static void through_format(void) {
  const char **part = command.parts;
  take(redisCommand(connection, "EVALSHA %s 1 %s %b", part[1], part[3], part[4], command.lengths[4]));
}

/* A server that keeps what it is sent and answers nothing. */
static void *keep(void *listener) {
  int accepted = accept(*(int *)listener, NULL, NULL);
  need(accepted >= 0 && read(accepted, command.bytes, sizeof command.bytes - 1) > 0, "nothing was sent");
  close(accepted);
  return NULL;
}

/* Has ratelimit send its command to a server of our own, and takes it apart. */
static void learn_command(void) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t length = sizeof address;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  need(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 1) == 0 &&
           getsockname(listener, (struct sockaddr *)&address, &length) == 0,
       "no free port");
  pthread_t server;
  need(pthread_create(&server, NULL, keep, &listener) == 0, "no thread");
  need(decide(limiter_on(ntohs(address.sin_port))) == RL_ERR_STORE_UNAVAILABLE, "an answer from nowhere");
  pthread_join(server, NULL);
  close(listener);

  char *at = command.bytes;
  need(*at == '*', "what was sent is no command");
  command.count = (int)strtol(at + 1, &at, 10);
  need(command.count == 5, "the command has another number of parts; `through_format` must be brought up to date");
  for (int i = 0; i < command.count; i++) {
    need(at[0] == '\r' && at[2] == '$', "what was sent is no command");
    command.lengths[i] = (size_t)strtol(at + 3, &at, 10);
    command.parts[i] = at + 2;
    at += 2 + command.lengths[i];
    need(*at == '\r', "what was sent is no command");
  }
  /* Every part ends where a "\r\n" began. */
  for (int i = 0; i < command.count; i++) {
    command.bytes[command.parts[i] - command.bytes + (ptrdiff_t)command.lengths[i]] = '\0';
  }
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int by_size(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

/* The median of many short batches, which alternate so that all see the same machine. */
static void latency(int rounds) {
  void (*const ways[])(void) = {through_ratelimit, through_argv, through_format};
  double *times[3];
  for (int way = 0; way < 3; way++) {
    times[way] = calloc((size_t)rounds, sizeof(double));
    need(times[way] != NULL, "no memory");
  }
  for (int round = 0; round < rounds; round++) {
    for (int way = 0; way < 3; way++) {
      double started = seconds();
      for (int i = 0; i < BATCH; i++) {
        ways[way]();
      }
      times[way][round] = (seconds() - started) / BATCH * 1e6;
    }
  }
  for (int way = 0; way < 3; way++) {
    qsort(times[way], (size_t)rounds, sizeof(double), by_size);
    printf("%.2f%c", times[way][rounds / 2], way == 2 ? '\n' : ' ');
    free(times[way]);
  }
}

int main(int argc, char **argv) {
  need(argc == 4, "usage: decision PORT ratelimit|argv|format|latency NUMBER");
  int port = atoi(argv[1]), number = atoi(argv[3]);
  learn_command();
  limiter = limiter_on(port);
  through_ratelimit();
  connection = redisConnectWithTimeout("127.0.0.1", port, (struct timeval){.tv_usec = 200000});
  need(connection != NULL && connection->err == 0, "hiredis cannot connect");
  redisSetTimeout(connection, (struct timeval){.tv_usec = 200000});

  if (strcmp(argv[2], "latency") == 0) {
    latency(number);
    return EXIT_SUCCESS;
  }
  void (*way)(void) = strcmp(argv[2], "ratelimit") == 0 ? through_ratelimit
                      : strcmp(argv[2], "argv") == 0    ? through_argv
                                                        : through_format;
  for (int i = 0; i < number; i++) {
    way();
  }
  redisFree(connection);
  rl_limiter_free(limiter);
  return EXIT_SUCCESS;
}
