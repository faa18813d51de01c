/* A redis-server of a test's own, and sockets that misbehave. */
#ifndef SERVER_H
#define SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
  pid_t process;
  int port;
  char folder[64];
  char socket[96]; /* it listens there as well */
} server;

/* Starts a server on a free port and waits until it answers; it ends with the test program at the latest. */
server server_start(void);

/* Kills it at once. */
void server_stop(server *server);

/* Kills it and starts it on the same port with nothing in it. */
void server_restart(server *server);

/* Stops it for good and removes its folder. */
void server_end(server *server);

/* Sends one command, written as for redis-cli without quotes, and returns the reply; the next call overwrites it. */
const char *server_command(const server *server, const char *command);

/* How often the server has carried out a command, given in lower case. */
long server_calls(const server *server, const char *command);

/* Connections that the server has accepted, this question's own included. */
long server_connections(const server *server);

/* The scripts that the server has run for us, however they were named. */
long server_decisions(const server *server);

/* A socket that listens on a free port of this host, whose number is written to `port`. Nobody accepts. */
int listener_open(int *port);

/* What the script of one policy returns: allowed, remaining, retry_after, reset_after and delay, as doubles. */
extern const double ALLOWED_7_LEFT[5], DENIED_0_LEFT[5];

/* Answers one command of a decision with such numbers. */
void answer(int connection, const double numbers[5]);

/* Reads commands until so many decisions have been asked for; false if the connection ends before. */
bool asked_for(int connection, int decisions);

#endif
