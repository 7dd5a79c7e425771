package convert

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

// findings collects what is wrong with an object while it is converted.
type findings struct {
	errs    field.ErrorList
	untold  int // how many more there are
	refused bool
}

// What is told of one object, so that nobody can fill every node's log and memory
// with an object of a megabyte: so many errors, and so much of a value, in bytes.
const (
	maxErrors = 20
	maxValue  = 256
)

// leaveOut notes what is wrong with a part that the result does without, and
// reports whether there was anything. Nil errors are skipped.
func (f *findings) leaveOut(errs ...*field.Error) bool {
	found := false
	for _, err := range errs {
		if err == nil {
			continue
		}
		found = true
		if len(f.errs) == maxErrors {
			f.untold++
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

// all is what was found.
func (f *findings) all() field.ErrorList {
	if f.untold == 0 {
		return f.errs
	}
	rest := field.Invalid(field.NewPath("..."), field.OmitValueType{}, fmt.Sprintf("and %d things more", f.untold))
	return append(f.errs, rest)
}

// shorten cuts a text that is longer than limit bytes, between characters.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// refuse notes what makes the object unusable. Nil errors are skipped.
func (f *findings) refuse(errs ...*field.Error) {
	if f.leaveOut(errs...) {
		f.refused = true
	}
}

// checkNames refuses an object whose namespace or name the API would refuse.
// Names end up in the comments of nft listings and in log lines: what is left
// after this can neither end a quote nor a line.
func (f *findings) checkNames(meta *metav1.ObjectMeta, nameProblems func(string) []string) {
	path := field.NewPath("metadata")
	f.refuse(
		invalidName(path.Child("namespace"), meta.Namespace, validation.IsDNS1123Label),
		invalidName(path.Child("name"), meta.Name, nameProblems),
	)
}

// invalidName says what problems finds wrong with a name, or nil.
func invalidName(path *field.Path, name string, problems func(string) []string) *field.Error {
	if found := problems(name); len(found) > 0 {
		return field.Invalid(path, name, strings.Join(found, "; "))
	}
	return nil
}

// protocolOf is the model's word for p; false for one that Services do not
// have. None given means TCP, as the API documents.
func protocolOf(p corev1.Protocol) (model.Protocol, bool) {
	switch p {
	case corev1.ProtocolTCP, "":
		return model.TCP, true
	case corev1.ProtocolUDP:
		return model.UDP, true
	case corev1.ProtocolSCTP:
		return model.SCTP, true
	}
	return 0, false
}

// unsupportedProtocol is the error for a protocol that [protocolOf] does
// not know.
func unsupportedProtocol(path *field.Path, p corev1.Protocol) *field.Error {
	return field.NotSupported(path, p,
		[]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP})
}

// portNumber checks a port number; zero is none.
func portNumber(path *field.Path, port int32) (uint16, *field.Error) {
	if problems := validation.IsValidPortNum(int(port)); len(problems) > 0 {
		return 0, field.Invalid(path, port, strings.Join(problems, "; "))
	}
	return uint16(port), nil
}

// created is a creation time in nanoseconds since the Unix epoch; zero if there
// is none, as in most manifests.
func created(t metav1.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
