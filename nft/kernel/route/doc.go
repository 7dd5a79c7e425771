// Package route reads the node's routing: the route to an address, whether an address is the
// node's own, and which source address masquerade selects. It uses rtnetlink and changes
// nothing.
package route
