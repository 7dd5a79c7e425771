package convert

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

// findings collects the errors of an object while it is converted.
type findings struct {
	errs    field.ErrorList
	omitted int // errors beyond maxErrors
	invalid bool
}

// Limits of what is reported about one object, so that an object of a megabyte
// cannot fill the log and memory of every node.
const (
	maxErrors = 20
	maxValue  = 256 // bytes of a quoted value
)

// skip records errors about a part that the result does without, and reports whether
// there were any. Nil errors do not count.
func (f *findings) skip(errs ...*field.Error) bool {
	found := false
	for _, err := range errs {
		if err == nil {
			continue
		}
		found = true
		if len(f.errs) == maxErrors {
			f.omitted++
			continue
		}
		if v := reflect.ValueOf(err.BadValue); v.Kind() == reflect.String {
			err.BadValue = shorten(v.String(), maxValue)
		}
		err.Detail = shorten(err.Detail, maxValue)
		f.errs = append(f.errs, err)
	}
	return found
}

// list returns the errors. If there are more than maxErrors, the last one counts them.
func (f *findings) list() field.ErrorList {
	if f.omitted == 0 {
		return f.errs
	}
	rest := field.Invalid(field.NewPath("..."), field.OmitValueType{}, fmt.Sprintf("and %d more errors", f.omitted))
	return append(f.errs, rest)
}

// shorten cuts a text that is longer than limit bytes, between characters.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// invalidate records errors that make the object unusable. Nil errors do not count.
func (f *findings) invalidate(errs ...*field.Error) {
	if f.skip(errs...) {
		f.invalid = true
	}
}

// checkNames makes an object invalid whose namespace or name the API would refuse. Names appear in
// the comments of nft listings and in log lines; a valid one can end neither a quote nor a line.
func (f *findings) checkNames(meta *metav1.ObjectMeta, nameProblems func(string) []string) {
	f.invalidate(
		invalidName(pathNamespace, meta.Namespace, validation.IsDNS1123Label),
		invalidName(pathName, meta.Name, nameProblems),
	)
}

// invalidName returns an error if problems finds any in the name. Problems must accept all DNS
// labels: most names are labels, for which there is no need of its regular expression.
func invalidName(path *field.Path, name string, problems func(string) []string) *field.Error {
	if isPlainName(name) && len(name) <= validation.DNS1123LabelMaxLength && !strings.Contains(name, ".") {
		return nil
	}
	if found := problems(name); len(found) > 0 {
		return field.Invalid(path, name, strings.Join(found, "; "))
	}
	return nil
}

// protocolOf returns the model's value of a protocol. The API documents that none means TCP.
func protocolOf(path *field.Path, p corev1.Protocol) (model.Protocol, *field.Error) {
	switch p {
	case corev1.ProtocolTCP, "":
		return model.TCP, nil
	case corev1.ProtocolUDP:
		return model.UDP, nil
	case corev1.ProtocolSCTP:
		return model.SCTP, nil
	}
	return 0, field.NotSupported(path.Child("protocol"), p,
		[]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP})
}

// portNumber validates the port number in a field of path. Zero is invalid.
func portNumber(path *field.Path, name string, port int32) (uint16, *field.Error) {
	if problems := validation.IsValidPortNum(int(port)); len(problems) > 0 {
		return 0, field.Invalid(path.Child(name), port, strings.Join(problems, "; "))
	}
	return uint16(port), nil
}

// created returns a creation time in nanoseconds since the Unix epoch; zero if there
// is none, as in most manifests.
func created(t metav1.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// annotation returns what an annotation asks for, and records an error if it cannot be parsed.
func annotation[T any](f *findings, all map[string]string, name string, parse func(string) (T, error)) T {
	value, err := parse(all[name])
	if err != nil {
		f.skip(field.Invalid(field.NewPath("metadata", "annotations").Key(name), all[name], err.Error()))
	}
	return value
}

// Paths of fields that every object has, so that objects without errors do not pay for them.
var (
	pathNamespace    = field.NewPath("metadata", "namespace")
	pathName         = field.NewPath("metadata", "name")
	pathServiceName  = field.NewPath("metadata", "labels").Key(discoveryv1.LabelServiceName)
	pathServicePorts = field.NewPath("spec", "ports")
	pathClusterIP    = field.NewPath("spec", "clusterIP")
	pathClusterIPs   = field.NewPath("spec", "clusterIPs")
	pathExternalIPs  = field.NewPath("spec", "externalIPs")
	pathSourceRanges = field.NewPath("spec", "loadBalancerSourceRanges")
	pathIngress      = field.NewPath("status", "loadBalancer", "ingress")
	pathSlicePorts   = field.NewPath("ports")
	pathEndpoints    = field.NewPath("endpoints")
)
