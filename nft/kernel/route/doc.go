// Package route asks the node's routing what becomes of an address: which way it is
// reached, whether it is the node's own, and which address a packet gets that leaves
// under masquerade. It reads, through rtnetlink, and changes nothing.
package route
