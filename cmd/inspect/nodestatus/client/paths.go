package client

// Paths on the status socket. [Path] serves the [status.Document]; the others are text.
const (
	Path        = "/status"
	PathRules   = "/rules"   // the rule set that the process wants, as nft text
	PathKernel  = "/kernel"  // what the kernel holds, in the same form
	PathDrift   = "/drift"   // how the kernel differs from the wanted rule set; empty if it does not
	PathConfig  = "/config"  // the configuration in use, as a file
	PathRecent  = "/recent"  // the last warnings and errors of the log
	PathInfo    = "/info"    // the last lines of the log from level Info on
	PathMetrics = "/metrics" // as on the metrics server
)

// DefaultSocket is where a process serves its status unless --status-socket says
// otherwise: an abstract name, which belongs to a network namespace, as the rules do.
const DefaultSocket = "@kube-vmap"
