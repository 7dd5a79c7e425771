// Package model is what a Service proxy is, without Kubernetes, without a
// kernel, without a clock.
//
// It turns Services and EndpointSlices, already reduced to plain values, into
// frontends: what a packet must carry to be the proxy's business, which
// endpoints serve it, and how it is treated on the way.
//
//	Service ports ---\
//	                  select (policy, conditions, hints) --> frontends --> claims --> changes
//	EndpointSlices --/
//
// Everything here is a value or a function of values; the one thing with a
// memory is [ServiceMap], which knows what changed since it was last asked, so
// that the cost of an event follows the event and not the cluster. Of a Service
// with many EndpointSlices it keeps the endpoints in order, so that one slice
// costs what it is and a copy of the lists, however many endpoints there are.
//
// The rules are kube-proxy's, because that is what users rely on. Where they
// come from a KEP, the code says which.
package model
