package sync

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// objectProblems are the current problems of objects.
type objectProblems map[Object]*objectProblem

type objectProblem struct {
	field    string
	text     string
	reported bool
}

// set records or removes the problem of an object. A known text is not reported again.
func (p objectProblems) set(e SetProblem) {
	if e.Err == nil {
		delete(p, e.Object)
		return
	}
	text := e.Err.Error()
	if known := p[e.Object]; known == nil || known.text != text {
		p[e.Object] = &objectProblem{field: firstField(e.Err), text: text}
	}
}

// firstField returns the field of the first validation error, if any.
func firstField(err error) string {
	if list := utilerrors.Aggregate(nil); errors.As(err, &list) {
		err = list.Errors()[0]
	}
	if e := (*field.Error)(nil); errors.As(err, &e) {
		return e.Field
	}
	return ""
}

// pending calls report for each problem that was not reported yet, in the order of the
// objects' names.
func (p objectProblems) pending(report func(o Object, text string)) {
	var objects []Object
	for o, problem := range p {
		if !problem.reported {
			objects = append(objects, o)
			problem.reported = true
		}
	}
	slices.SortFunc(objects, func(a, b Object) int {
		return cmp.Or(strings.Compare(a.String(), b.String()), strings.Compare(a.UID, b.UID))
	})
	for _, o := range objects {
		report(o, p[o].text)
	}
}
