// Package cluster runs commands of kube-vmap on the nodes of a cluster, through the API
// server: by "exec" in the pods of kube-vmap's DaemonSet, as kubectl exec does.
//
//	Flags --> Nodes: Cluster, List --nodes.Each, Answers--> Run, Document, JSON
//	kubectl's                        bounded                one exec each
//
// No port of a node is needed, and nothing but /kube-vmap runs there. What it prints is the
// answer. Errors name what is missing: a permission, kube-vmap, a pod, a command that an
// older version does not have. A node that does not answer costs its time-out, and no other
// node waits for it.
package cluster
