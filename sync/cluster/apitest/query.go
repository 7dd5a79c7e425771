package apitest

import (
	"fmt"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// A query has the parameters of a list or watch.
type query struct {
	watch, initial   bool
	revision         int64 // zero if none is given
	limit, continued int
	labels           labels.Selector
	fields           fields.Selector
}

func newQuery(v url.Values) (query, error) {
	q := query{watch: v.Get("watch") == "true" || v.Get("watch") == "1", initial: v.Get("sendInitialEvents") == "true"}
	var err error
	if q.labels, err = labels.Parse(v.Get("labelSelector")); err != nil {
		return q, err
	}
	if q.fields, err = fields.ParseSelector(v.Get("fieldSelector")); err != nil {
		return q, err
	}
	if rv := v.Get("resourceVersion"); rv != "" {
		if q.revision, err = strconv.ParseInt(rv, 10, 64); err != nil {
			return q, fmt.Errorf("resourceVersion: %w", err)
		}
	}
	q.limit, _ = strconv.Atoi(v.Get("limit"))
	q.continued, _ = strconv.Atoi(v.Get("continue"))
	return q, nil
}

// selects reports whether the selectors match the object; they never match nil.
func (q query) selects(o Object) bool {
	if o == nil || !q.labels.Matches(labels.Set(o.GetLabels())) {
		return false
	}
	of := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	if s, ok := o.(*corev1.Service); ok {
		of["spec.clusterIP"] = s.Spec.ClusterIP
	}
	return q.fields.Matches(of)
}
