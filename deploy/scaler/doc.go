// Command kube-vmap-scaler is the external push scaler by which KEDA starts what clients of a Service
// wait for, and stops it when it is idle (https://keda.sh/docs/latest/concepts/external-scalers).
//
//	nodes (package demand) --TLS--> reports.go --> demand.go --> keda.go --gRPC--> KEDA
//
//	reports.go      receives what nodes report, and checks who sends it
//	endpoint.go     checks that nodes report here
//	demand.go       adds up the demand of all nodes
//	keda.go         responds to KEDA, and signals that clients wait
//	services.go     checks that the Service of a trigger scales to zero
//	certificate.go  publishes the certificate that nodes expect
//
// It keeps nothing but the certificate. While nodes may not have reported, as after a restart, with a new
// certificate or a successor, KEDA's requests about a Service without demand fail.
package main
