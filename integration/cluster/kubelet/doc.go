// Package kubelet simulates the part of kubelet that serves `kubectl exec`: the
// streaming server that the API server connects to, on port [objects.KubeletPort] of a
// node.
//
//	kubectl --> kube-apiserver --> Kubelet on node-1 --> /kube-vmap get svc -A
//	 WebSocket                TLS, SPDY or WebSocket       in the node's namespace
//
// The protocol is real: the package serves it with the library of container runtimes
// (k8s.io/cri-streaming). Like the image of kube-vmap, the container has one program and no shell.
package kubelet
