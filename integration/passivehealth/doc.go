// Package passivehealth tests that an endpoint which drops all packets gets no new connections
// until it answers again, with clients, connection tracking and probes of the real kernel.
package passivehealth
