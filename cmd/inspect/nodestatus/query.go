package nodestatus

import (
	"context"
	"net/url"
	"time"

	"kube-vmap/model"
)

// Query selects the part of a [Document] that is wanted.
type Query struct {
	// Namespace and Name are those of Services; empty means all.
	Namespace, Name string
	// Brief counts endpoints instead of listing them.
	Brief bool
	// Health asks for no Services at all, but for the [Health] of the process.
	Health bool
	// Observe is how long to observe how endpoints respond; zero means not at all.
	Observe time.Duration
}

// Values returns the query as URL parameters, for [ParseQuery].
func (q Query) Values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"namespace": q.Namespace, "name": q.Name} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, set := range map[string]bool{"brief": q.Brief, "health": q.Health} {
		if set {
			v.Set(name, "true")
		}
	}
	if q.Observe > 0 {
		v.Set("observe", q.Observe.String())
	}
	return v
}

// Args returns the query as arguments of kube-vmap status.
func (q Query) Args() (args []string) {
	for _, f := range []struct{ flag, value string }{{"--namespace", q.Namespace}, {"--name", q.Name}} {
		if f.value != "" {
			args = append(args, f.flag, f.value)
		}
	}
	if q.Brief {
		args = append(args, "--brief")
	}
	if q.Health {
		args = append(args, "--health")
	}
	if q.Observe > 0 {
		args = append(args, "--observe", q.Observe.String())
	}
	return args
}

// ParseQuery reads a query from URL parameters.
func ParseQuery(v url.Values) Query {
	observe, _ := time.ParseDuration(v.Get("observe")) // zero if it is malformed
	return Query{
		Namespace: v.Get("namespace"), Name: v.Get("name"),
		Brief: v.Get("brief") == "true", Health: v.Get("health") == "true", Observe: observe,
	}
}

// Matches reports whether the query asks for the Service.
func (q Query) Matches(n model.ServiceName) bool {
	return (q.Namespace == "" || q.Namespace == n.Namespace) && (q.Name == "" || q.Name == n.Name)
}

// Source returns the document for a query.
type Source func(ctx context.Context, q Query) (*Document, error)
