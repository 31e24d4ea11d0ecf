"""Teach a small network to read handwritten digits, save it, and use the file without this class.

The 1797 digits of 8 by 8 pixels come with scikit-learn; every fifth is held out of the training.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from polygrad import Model, Tensor, nn

EPOCHS, BATCH = 12, 60


class Net:
    """Two normalised convolutions, the largest of each 2 by 2 after both, one linear layer."""

    def __init__(self):
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm(32)
        self.linear = nn.Linear(32 * 2 * 2, 10)

    def __call__(self, image):
        x = self.norm1(self.conv1(image)).relu().max_pool2d(2)
        x = self.norm2(self.conv2(x)).relu().max_pool2d(2)
        return {"digit": self.linear(x.flatten(1).dropout(0.2))}


USE = """
import sys, numpy as np
from polygrad import Model
model, images = Model.load(sys.argv[1]), np.load(sys.argv[2])
parts = [model.forward(image=images[i:i + 60])["digit"] for i in range(0, len(images), 60)]
np.save(sys.argv[3], np.concatenate(parts))
"""


def in_a_new_process(where, bundle, images):
    """What the saved model says about `images`, computed by a process that never saw Net."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "images.npy"), Path(folder, "digits.npy")
        np.save(given, images)
        command = [sys.executable, "-c", USE, bundle, given, found]
        subprocess.run(command, check=True, env={**os.environ, "POLY_DEV": where})
        return np.load(found)


def main():
    images, digits = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    held = np.arange(len(digits)) % 5 == 0

    Tensor.manual_seed(0)
    model = Model(
        Net(),
        inputs={"image": Tensor.empty(BATCH, 1, 8, 8)},
        targets={"label": Tensor.empty(BATCH, dtype="int32")},
        loss=lambda outputs, label: outputs["digit"].cross_entropy(label),
    )
    data = {"image": images[~held], "label": digits[~held].astype(np.int32)}
    rate = nn.lr.cosine_decay(0.005, 0.0, EPOCHS * (len(data["label"]) // BATCH))
    history = model.fit(data, EPOCHS, BATCH, optimizer="adam", lr=rate, shuffle=0, remainder="drop")

    test, truth = images[held], digits[held]
    parts = [model.forward(image=test[i : i + BATCH])["digit"] for i in range(0, len(test), BATCH)]
    answers = np.concatenate(parts)
    accuracy = (answers.argmax(1) == truth).mean()

    bundle = Path("digits.pgb")
    model.save(bundle)
    same = np.array_equal(in_a_new_process(model.device, bundle, test), answers)
    apart = abs(in_a_new_process("interp", bundle, test) - answers).max()

    print(f"device              {model.device}")
    print(f"held-out accuracy   {accuracy:.1%} of {len(test)} digits")
    print(f"seconds per epoch   {np.median(history.seconds):.3f}")
    print(f"kernels per step    {model.stats()['train']}")
    print(f"bundle              {bundle}, {bundle.stat().st_size / 1000:.1f} kB")
    print(f"in a new process    {'bit-identical' if same else 'DIFFERENT'}")
    print(f"on interp           within {apart:.1e}")
    assert accuracy >= 0.97 and same and apart < 1e-4


if __name__ == "__main__":
    main()
