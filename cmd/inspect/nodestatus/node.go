package nodestatus

// Node is a node of the cluster, with its pod of kube-vmap.
type Node struct {
	Name           string
	Pod, Namespace string
	// Missing reports whether no container of kube-vmap runs there. Why is the reason, or
	// that the pod is not ready.
	Missing bool
	Why     string
	// Absent reports whether the node has no pod of kube-vmap, as before it is moved: no
	// problem, unless the node was asked for by its name.
	Absent bool
}
