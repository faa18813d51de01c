/* memmem */
#define _GNU_SOURCE
#include "server.h"

#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in address_of(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int listener_open(int *port) {
  struct sockaddr_in address = address_of(0);
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(listener >= 0);
  CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
  CHECK(listen(listener, 16) == 0);
  CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
  *port = ntohs(address.sin_port);
  return listener;
}

static int connect_to(int port) {
  struct sockaddr_in address = address_of(port);
  int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection >= 0 && connect(connection, (struct sockaddr *)&address, sizeof address) != 0) {
    close(connection);
    return -1;
  }
  return connection;
}

static void wait_until_it_answers(const server *server) {
  double give_up = check_seconds() + 20;
  for (;;) {
    int connection = connect_to(server->port);
    if (connection >= 0) {
      close(connection);
      if (strncmp(server_command(server, "PING"), "+PONG", 5) == 0) {
        return;
      }
    }
    CHECK(check_seconds() < give_up);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  }
}

static void launch(server *server) {
  char port[16];
  snprintf(port, sizeof port, "%d", server->port);
  pid_t parent = getpid();
  server->process = fork();
  CHECK(server->process >= 0);
  if (server->process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    if (getppid() == parent) {
      execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", server->folder, "--unixsocket", server->socket, (char *)NULL);
    }
    _exit(127);
  }
  wait_until_it_answers(server);
}

server server_start(void) {
  server server = {.folder = "/tmp/ratelimit-test-XXXXXX"};
  CHECK(mkdtemp(server.folder) != NULL);
  snprintf(server.socket, sizeof server.socket, "%s/redis.sock", server.folder);
  close(listener_open(&server.port));
  launch(&server);
  return server;
}

void server_stop(server *server) {
  if (server->process > 0) {
    kill(server->process, SIGKILL);
    waitpid(server->process, NULL, 0);
    server->process = 0;
  }
}

void server_restart(server *server) {
  server_stop(server);
  launch(server);
}

void server_end(server *server) {
  server_stop(server);
  unlink(server->socket);
  rmdir(server->folder);
}

/* The length of a whole reply of which `length` bytes are there, 0 while that is not known. */
static size_t reply_length(const char *reply, size_t length) {
  const char *end = memchr(reply, '\n', length);
  if (end == NULL) {
    return 0;
  }
  size_t line = (size_t)(end - reply) + 1;
  return reply[0] == '$' && reply[1] != '-' ? line + (size_t)atol(reply + 1) + 2 : line;
}

const char *server_command(const server *server, const char *command) {
  static char reply[65536];
  int connection = connect_to(server->port);
  CHECK(connection >= 0);
  CHECK(dprintf(connection, "%s\r\n", command) > 0);
  size_t length = 0;
  for (;;) {
    ssize_t count = read(connection, reply + length, sizeof reply - 1 - length);
    CHECK(count > 0);
    length += (size_t)count;
    size_t whole = reply_length(reply, length);
    if (whole > 0 && length >= whole) {
      break;
    }
  }
  reply[length] = '\0';
  close(connection);
  return reply;
}

static long number_after(const char *text, const char *label) {
  const char *found = strstr(text, label);
  return found == NULL ? 0 : atol(found + strlen(label));
}

long server_calls(const server *server, const char *command) {
  char label[64];
  snprintf(label, sizeof label, "cmdstat_%s:calls=", command);
  return number_after(server_command(server, "INFO commandstats"), label);
}

long server_connections(const server *server) {
  return number_after(server_command(server, "INFO stats"), "total_connections_received:");
}

long server_decisions(const server *server) { return server_calls(server, "evalsha") + server_calls(server, "eval"); }

const double ALLOWED_7_LEFT[5] = {1, 7, 0, 1000000, 0};
const double DENIED_0_LEFT[5] = {0, 0, 1000000, 1000000, 0};

void answer(int connection, const double numbers[5]) {
  char reply[5 + 40 + 2] = "$40\r\n";
  memcpy(reply + 5, numbers, 40);
  memcpy(reply + 45, "\r\n", 2);
  /* Whoever is answered late may have gone. */
  if (send(connection, reply, sizeof reply, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET) {
    perror("the fake server");
  }
}

bool asked_for(int connection, int decisions) {
  char commands[65536];
  size_t length = 0;
  for (;;) {
    const char *at = commands, *end = commands + length;
    int seen = 0;
    while ((at = memmem(at, (size_t)(end - at), "EVALSHA", 7)) != NULL) {
      at += 7;
      seen++;
    }
    if (seen >= decisions) {
      return true;
    }
    ssize_t count = recv(connection, commands + length, sizeof commands - length, 0);
    if (count <= 0) {
      return false;
    }
    length += (size_t)count;
  }
}
