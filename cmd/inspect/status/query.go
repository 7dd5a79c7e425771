package status

import (
	"context"
	"net/url"

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
	return v
}

// ParseQuery reads a query from URL parameters.
func ParseQuery(v url.Values) Query {
	return Query{
		Namespace: v.Get("namespace"), Name: v.Get("name"),
		Brief: v.Get("brief") == "true", Health: v.Get("health") == "true",
	}
}

// Matches reports whether the query asks for the Service.
func (q Query) Matches(n model.ServiceName) bool {
	return (q.Namespace == "" || q.Namespace == n.Namespace) && (q.Name == "" || q.Name == n.Name)
}

// Source returns the document for a query.
type Source func(ctx context.Context, q Query) (*Document, error)
