package resolve

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// explainError adds to an error of the API server how to find what exists, or where the
// permission is; nil for nil.
func explainError(kind Kind, namespace, name string, err error) error {
	switch {
	case err == nil || !apierrors.IsNotFound(err):
		return permissionError(err)
	case namespace == "":
		return fmt.Errorf("there is no %s %s; kubectl get %[1]ss lists them", kind, name)
	}
	return fmt.Errorf("there is no %s %s in namespace %s; kubectl get %[1]ss -A lists them", kind, name, namespace)
}

// permissionError adds to a refusal of the API server where the permission is.
func permissionError(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; the ClusterRole of deploy/kubectl permits it", err)
	}
	return err
}
