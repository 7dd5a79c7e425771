// Package shadow tests kube-vmap shadow beside a real kube-proxy. Both run on the node of a
// lab with the objects of an API server. Of a scene with every kind of address, both
// families, all protocols, policies, hints, source ranges and affinity, nothing may differ
// that is not intended; of a rule of kube-proxy that a test has changed, everything.
package shadow
