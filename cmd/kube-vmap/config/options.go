package config

import (
	"time"

	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/model"
	"kube-vmap/sync/fastpath"
)

// Options are the settings that have no field in the configuration file. A flag sets
// each of them, whether or not there is a file.
type Options struct {
	// The next ones are kube-proxy's, Manifests apart.

	Master        string // URL of the API server, instead of the kubeconfig's
	Manifests     string // folder or file with Services, instead of the API server
	WriteConfigTo string // file to write the configuration to; then exit
	InitOnly      bool   // do what needs full root privileges, then exit
	Cleanup       bool   // remove all rules, then exit

	// kube-proxy does not have the rest.

	// StrictSourceRanges closes the load balancer addresses of an IP family to everyone if all
	// source ranges of the Service are of the other family; kube-proxy leaves them open.
	StrictSourceRanges bool
	// EndTCPFlows ends TCP connections whose endpoint is gone. With kube-proxy they
	// last as long as the endpoint answers.
	EndTCPFlows bool
	// DropInvalid drops packets of endpoints that connection tracking calls invalid.
	// kube-proxy drops all forwarded ones in mode iptables, and none in mode nftables.
	DropInvalid bool
	// ProtectTables makes our tables belong to this process, where the kernel can.
	ProtectTables bool
	// CountConnections counts connections in the kernel; EndpointMetrics has a metric
	// for each endpoint.
	CountConnections, EndpointMetrics bool
	// FastPath lets packets of established connections take a flowtable, after
	// FastPathAfter packets.
	FastPath      bool
	FastPathAfter int32
	// PassiveHealthChecks is what to do about endpoints that do not answer, in the words of
	// [convert.ParsePassiveChecks]; at most so many percent of a Service port's are avoided.
	PassiveHealthChecks           string
	PassiveHealthChecksMaxPercent int32
	// StatusSocket is the Unix socket of the status server, as package net names it;
	// empty for none. StatusPage serves the status page with the metrics.
	StatusSocket string
	StatusPage   bool
	// Networkz serves /networkz with the probes.
	Networkz bool
	// Probation is how long kube-proxy's rules stay in the kernel, suspended, after the
	// take-over; zero removes them immediately. KubeProxyMarker is one of the Marker words.
	Probation       time.Duration
	KubeProxyMarker string
}

// The values of --kube-proxy-marker: when empty tables of kube-proxy's names stay, for
// programs that look for them.
const (
	MarkerAuto   = "auto"
	MarkerAlways = "always"
	MarkerNever  = "never"
)

func defaultOptions() Options {
	return Options{
		ProtectTables: true, CountConnections: true, FastPathAfter: fastpath.DefaultAfter, StatusSocket: client.DefaultSocket,
		Probation: 10 * time.Minute, KubeProxyMarker: MarkerAuto,
		PassiveHealthChecks: model.PassiveChecksReport.String(), PassiveHealthChecksMaxPercent: 50,
	}
}
