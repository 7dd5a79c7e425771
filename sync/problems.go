package sync

import (
	"cmp"
	"slices"
	"strings"
)

// objectProblems are what is wrong with which objects.
type objectProblems map[Object]*objectProblem

// objectProblem is what is wrong with one object.
type objectProblem struct {
	text string
	told bool
}

// set takes in what a source says. What was told already need not be again.
func (p objectProblems) set(e SetProblem) {
	if e.Err == nil {
		delete(p, e.Object)
		return
	}
	text := e.Err.Error()
	if known := p[e.Object]; known == nil || known.text != text {
		p[e.Object] = &objectProblem{text: text}
	}
}

// pending calls tell for each problem that was not told yet, in the order of the
// objects' names.
func (p objectProblems) untold(tell func(o Object, text string)) {
	var news []Object
	for o, problem := range p {
		if !problem.told {
			news = append(news, o)
			problem.told = true
		}
	}
	slices.SortFunc(news, func(a, b Object) int {
		return cmp.Or(strings.Compare(a.String(), b.String()), strings.Compare(a.UID, b.UID))
	})
	for _, o := range news {
		tell(o, p[o].text)
	}
}
