/* One decision after another from C.
 *
 *   caller WAY PORT CALLS     makes so many calls and ends: to be counted
 *   caller WAY PORT           reads a number per line, makes so many calls, prints the nanoseconds they took
 *
 * WAY is `one` (one policy), `three` (three policies in one call) or `socket`: no library at all, only the same
 * command written to a socket and one read per reply; the environment variable COMMAND names the file that holds it.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <ratelimit.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char KEY[] = "user:42";

static rl_limiter *limiter;
static int server;
static char command[4096];
static size_t command_length;

static void need(bool condition, const char *what) {
  if (!condition) {
    fprintf(stderr, "caller: %s\n", what);
    exit(EXIT_FAILURE);
  }
}

static void open_limiter(int port, size_t count) {
  static const char *const NAMES[] = {"second", "minute", "hour"};
  char dsn[64];
  rl_store *store;
  rl_policy *policies[3];
  snprintf(dsn, sizeof dsn, "redis://127.0.0.1:%d", port);
  need(rl_store_open(dsn, &store) == RL_OK, rl_last_error());
  for (size_t i = 0; i < count; i++) {
    need(rl_policy_token_bucket(1000000, 1, 1, false, &policies[i]) == RL_OK, rl_last_error());
    if (count > 1) need(rl_policy_set_name(policies[i], NAMES[i]) == RL_OK, rl_last_error());
  }
  need(rl_limiter_new((const rl_policy *const *)policies, count, store, NULL, &limiter) == RL_OK, rl_last_error());
}

static void open_socket(int port) {
  const char *path = getenv("COMMAND");
  FILE *file = path == NULL ? NULL : fopen(path, "rb");
  need(file != NULL, "COMMAND names no file");
  command_length = fread(command, 1, sizeof command, file);
  need(command_length > 0 && command_length < sizeof command, "the command is empty or too long");
  fclose(file);

  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  server = socket(AF_INET, SOCK_STREAM, 0);
  need(connect(server, (struct sockaddr *)&address, sizeof address) == 0, "cannot connect");
  setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

static void through_library(void) {
  rl_decision decision;
  need(rl_allow(limiter, (const uint8_t *)KEY, sizeof KEY - 1, 1, &decision) == RL_OK, rl_last_error());
  need(decision.allowed, "a call did not pass");
}

static void through_socket(void) {
  char reply[256];
  need(write(server, command, command_length) == (ssize_t)command_length, "the command was not written");
  need(read(server, reply, sizeof reply) > 0 && reply[0] == '$', "the reply is no decision");
}

static uint64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv) {
  need(argc == 3 || argc == 4, "usage: caller one|three|socket PORT [CALLS]");
  bool library = strcmp(argv[1], "socket") != 0;
  if (library) {
    open_limiter(atoi(argv[2]), strcmp(argv[1], "three") == 0 ? 3 : 1);
  } else {
    open_socket(atoi(argv[2]));
  }
  void (*call)(void) = library ? through_library : through_socket;
  call();

  if (argc == 4) {
    for (long left = atol(argv[3]); left > 0; left--) call();
    return EXIT_SUCCESS;
  }
  char line[32];
  while (fgets(line, sizeof line, stdin) != NULL) {
    uint64_t started = nanoseconds();
    for (long left = atol(line); left > 0; left--) call();
    printf("%llu\n", (unsigned long long)(nanoseconds() - started));
    fflush(stdout);
  }
  return EXIT_SUCCESS;
}
