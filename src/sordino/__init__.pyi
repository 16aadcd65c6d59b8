# The public names and their homes, in one list: type checkers read it, and so does `__init__.py`.

from sordino.budget import Budget as Budget, Relation as Relation
from sordino.certificate import Certificate as Certificate, verify as verify
from sordino.checkpoint import Checkpoint as Checkpoint, RunRecorder as RunRecorder
from sordino.estimators.additive import (
    PrivateAdditiveClassifier as PrivateAdditiveClassifier,
    PrivateAdditiveRegressor as PrivateAdditiveRegressor,
)
from sordino.estimators.classifiers import (
    PrivateLinearSVC as PrivateLinearSVC,
    PrivateLogisticRegression as PrivateLogisticRegression,
)
from sordino.estimators.encoder import SchemaEncoder as SchemaEncoder
from sordino.estimators.log_link import (
    PrivateGammaRegressor as PrivateGammaRegressor,
    PrivatePoissonRegressor as PrivatePoissonRegressor,
)
from sordino.estimators.networks import (
    PrivateMLPClassifier as PrivateMLPClassifier,
    PrivateMLPRegressor as PrivateMLPRegressor,
)
from sordino.estimators.pictures import PrivateImageClassifier as PrivateImageClassifier
from sordino.estimators.regressors import (
    PrivateHuberRegressor as PrivateHuberRegressor,
    PrivateLinearRegression as PrivateLinearRegression,
    PrivateLinearSVR as PrivateLinearSVR,
    PrivateQuantileRegressor as PrivateQuantileRegressor,
)
from sordino.estimators.saved import load_model as load_model
from sordino.estimators.score import private_score as private_score
from sordino.estimators.search import PrivateSearch as PrivateSearch
from sordino.evaluation_file import Evaluation as Evaluation, verify_evaluation as verify_evaluation
from sordino.identity import Identity as Identity
from sordino.ledger.ledger import Ledger as Ledger
from sordino.methods import (
    DPSGD as DPSGD,
    AdaptiveGradientDescent as AdaptiveGradientDescent,
    ApproximateMinimaPerturbation as ApproximateMinimaPerturbation,
    BassilySmithThakurta as BassilySmithThakurta,
    ConstantModel as ConstantModel,
    DPAdam as DPAdam,
    DPRMSProp as DPRMSProp,
    NoisyGradientDescent as NoisyGradientDescent,
    NoisyNewton as NoisyNewton,
    NoisySGD as NoisySGD,
    ObjectivePerturbation as ObjectivePerturbation,
    OutputPerturbation as OutputPerturbation,
    PermutationSGD as PermutationSGD,
    PhasedSGD as PhasedSGD,
    ProximalSmoothing as ProximalSmoothing,
    RandomRoundSGD as RandomRoundSGD,
    RecursiveMomentum as RecursiveMomentum,
    RepeatedSelection as RepeatedSelection,
    Setting as Setting,
    SpiderBoost as SpiderBoost,
    SufficientStatistics as SufficientStatistics,
)
from sordino.model_file import read_model as read_model, save_model as save_model, verify_model as verify_model
from sordino.privacy.audit import audit as audit
from sordino.privacy.charges import BudgetExceeded as BudgetExceeded
from sordino.privacy.ledger_context import charged_to as charged_to
from sordino.problem import Problem as Problem
from sordino.reporting import report as report
from sordino.tabular.schema import Schema as Schema
from sordino.train import PrivacyWarning as PrivacyWarning
from sordino.words import explain as explain

__version__: str
