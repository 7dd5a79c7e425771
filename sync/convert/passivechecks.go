package convert

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

// annotationPassiveChecks says what is done about endpoints of a Service that do not answer; see
// [ParsePassiveChecks].
const annotationPassiveChecks = "kube-vmap.io/passive-health-checks"

var errPassiveChecks = errors.New("must be off, report or avoid; the default is used instead")

// ParsePassiveChecks returns what off, report and avoid mean. An empty or unknown value is
// [model.PassiveChecksDefault]; an unknown one with an error.
func ParsePassiveChecks(value string) (model.PassiveChecks, error) {
	if value == "" {
		return model.PassiveChecksDefault, nil
	}
	for _, c := range []model.PassiveChecks{
		model.PassiveChecksOff, model.PassiveChecksReport, model.PassiveChecksAvoid,
	} {
		if c.String() == value {
			return c, nil
		}
	}
	return model.PassiveChecksDefault, errPassiveChecks
}

func (f *findings) passiveChecks(annotations map[string]string) model.PassiveChecks {
	value := annotations[annotationPassiveChecks]
	c, err := ParsePassiveChecks(value)
	if err != nil {
		path := field.NewPath("metadata", "annotations").Key(annotationPassiveChecks)
		f.skip(field.Invalid(path, value, err.Error()))
	}
	return c
}
