// Package kubelet simulates the part of kubelet that serves `kubectl exec`: the
// streaming server that the API server connects to, on port [objects.KubeletPort] of a
// node.
//
//	kubectl --> kube-apiserver --> Kubelet on node-1 --> /kube-vmap get svc -A
//	 WebSocket                TLS, SPDY or WebSocket       in the node's namespace
//
// The protocol is real: the package serves it with the library of container runtimes
// (k8s.io/cri-streaming). A [Program] is what a container can run: like the image of
// kube-vmap, it has that program and no shell. Another [Run] simulates a container
// of a simulated node: one [Kubelet] can serve the pods of many nodes.
//
// It can fail: [Kubelet.Hang] (answers nothing), [Kubelet.Down] (refuses connections),
// [Kubelet.CutAfter] (resets connections in the middle of an answer: the API server of
// 1.36 then reports success to its client, which must know by itself whether an answer is
// whole).
package kubelet
