package apitest

import (
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
)

// A query has the parameters of a list or watch. The server ignores the limit of a list.
type query struct {
	metav1.ListOptions
	revision int64 // zero if not given
	labels   labels.Selector
	fields   fields.Selector
}

func newQuery(v url.Values) (q query, err error) {
	if err := scheme.ParameterCodec.DecodeParameters(v, corev1.SchemeGroupVersion, &q.ListOptions); err != nil {
		return q, err
	}
	if q.labels, err = labels.Parse(q.LabelSelector); err != nil {
		return q, err
	}
	if q.ResourceVersion != "" {
		if q.revision, err = strconv.ParseInt(q.ResourceVersion, 10, 64); err != nil {
			return q, err
		}
	}
	q.fields, err = fields.ParseSelector(q.FieldSelector)
	return q, err
}

// initial reports whether a watch begins with a list.
func (q query) initial() bool { return q.SendInitialEvents != nil && *q.SendInitialEvents }

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
