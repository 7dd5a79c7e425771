package demand

// How a node finds kube-vmap-scaler, and what it sends: a POST to Path, with a token of Audience, whose
// body is lines of JSON, each a [Report]. A request begins with all demand of the node. The response
// begins when the token is accepted. It has no content, except why the scaler ends the request.
const (
	// Audience is whom the token is for (KEP-1205).
	Audience = "kube-vmap-scaler"
	// Path is the path of the URL.
	Path = "/demand"
	// PortName is the name of the Service's port.
	PortName = "reports"
	// ServerName is the name in the scaler's certificate.
	ServerName = "kube-vmap-scaler"
	// CAFile is a key of the ConfigMap, and a file on nodes: the certificate.
	CAFile = "ca.crt"
	// ServiceFile is another one: "namespace/name" of the Service.
	ServiceFile = "service"
	// TokenFile is a file next to them.
	TokenFile = "token"
	// MaxServices is how many Services a report has at most.
	MaxServices = 1000
	// MaxLine is the maximum length of its line in bytes.
	MaxLine = 1 << 20
)

// A Report is what has changed in the demand through a node.
type Report struct {
	Services []Service `json:"services,omitempty"`
	// Complete reports whether the request has sent all demand by now.
	Complete bool `json:"complete,omitempty"`
}

// Service is the demand for a Service through a node.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Clients counts those that wait, and active connections; zero if demand has ended.
	Clients int `json:"clients"`
	// Waiting reports whether clients began to wait for an endpoint since the last report.
	Waiting bool `json:"waiting,omitempty"`
}
