package cluster

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// objectName names an object among those of its kind.
type objectName struct{ namespace, name string }

// convertedObject is what an API object means to the proxy. It shares no memory with the
// object. It poses as one, because lists and stores of client-go ask for that.
type convertedObject struct {
	objectName
	// value is what the store's teller makes an event of; nil if nothing of the
	// object can be used or nothing need be.
	value any
	// content is a hash of the value, not zero if there is one.
	content uint64
	// err is what is wrong with the object.
	err error
	uid string
	// triggerTime is when what led to the object's last change happened; zero if
	// that is not known.
	triggered time.Time
}

// GetObjectMeta has what client-go makes keys of.
func (i *convertedObject) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.namespace, Name: i.objectName.name}
}

// GetObjectKind implements [runtime.Object].
func (*convertedObject) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements [runtime.Object]; items do not change.
func (i *convertedObject) DeepCopyObject() runtime.Object { return i }
