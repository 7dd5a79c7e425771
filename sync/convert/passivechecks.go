package convert

import (
	"errors"

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
