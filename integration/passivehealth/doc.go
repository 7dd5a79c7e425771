// Package passivehealth tests that an endpoint which drops all packets gets no new connections
// until it answers again, with clients, connection tracking and questions of the real kernel.
package passivehealth
