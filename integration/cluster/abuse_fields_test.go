package cluster_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// fieldsWithoutAttack are the fields that no attack has, and why.
var fieldsWithoutAttack = map[string]string{
	"ServiceSpec.ExternalName":        "such a Service is none of the proxy's, and has nothing else",
	"ServiceSpec.HealthCheckNodePort": "the API gives the numbers out",
	"ServiceSpec.ClusterIPs":          "the API fills in what spec.clusterIP says",
	"Condition.ObservedGeneration":    "a number that is passed on",
	"Endpoint.DeprecatedTopology":     "the API takes it from older clients only",
	"ObjectReference.UID":             "a reference has a kind and a name",
	"ObjectReference.APIVersion":      "the same",
	"ObjectReference.ResourceVersion": "the same",
	"ObjectReference.FieldPath":       "the same",
}

// TestEveryFieldIsInAnAttack checks the objects of all attacks for the fields of Services,
// EndpointSlices and ServiceCIDRs. Most fields of a Node are irrelevant for the proxy.
func TestEveryFieldIsInAnAttack(t *testing.T) {
	set := map[string]bool{}
	for _, k := range attacks() {
		for _, o := range slices.Concat(k.create(), k.changes()) {
			noteFields(reflect.ValueOf(o), set)
		}
	}
	for _, of := range []any{
		corev1.ServiceSpec{}, corev1.ServiceStatus{}, networkingv1.ServiceCIDRSpec{}, discoveryv1.EndpointSlice{},
	} {
		for _, name := range fieldsOf(reflect.TypeOf(of)) {
			reason, without := fieldsWithoutAttack[name]
			switch {
			case !set[name] && !without:
				t.Errorf("no attack has %s", name)
			case set[name] && without:
				t.Errorf("an attack has %s, which should be without: %s", name, reason)
			}
		}
	}
}

// ours reports whether the fields of a type are checked.
func ours(t reflect.Type) bool {
	path := t.PkgPath()
	return t.Kind() == reflect.Struct && (strings.HasPrefix(path, "k8s.io/api/") || t.Name() == "Condition")
}

// noteFields records which fields of the value are not empty, as "Type.Field".
func noteFields(v reflect.Value, set map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			noteFields(v.Elem(), set)
		}
	case reflect.Slice:
		for i := range min(v.Len(), 60) { // the others are like the first ones
			noteFields(v.Index(i), set)
		}
	case reflect.Struct:
		if !ours(v.Type()) {
			return
		}
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				set[v.Type().Name()+"."+v.Type().Field(i).Name] = true
				noteFields(v.Field(i), set)
			}
		}
	}
}

// fieldsOf returns all fields of a type, and of the types in it.
func fieldsOf(t reflect.Type) (all []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if !ours(t) {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name != "TypeMeta" {
			all = append(all, t.Name()+"."+f.Name)
		}
		all = append(all, fieldsOf(f.Type)...)
	}
	return all
}
